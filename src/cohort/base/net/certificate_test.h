#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "cohort/base/files/files.h"

namespace cohort {

// For tests: a self-signed certificate and its key, as PEM files in `folder`. `names`: "IP:127.0.0.1".
class TestCertificate {
 public:
  TestCertificate(const std::filesystem::path& folder, const std::string& names,
                  const std::string& prefix = "")
      : certificate_(folder / (prefix + "certificate.pem")), key_(folder / (prefix + "key.pem")) {
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> made(X509_new(), X509_free);
    X509* certificate = made.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key.get());
    const auto* text = reinterpret_cast<const unsigned char*>("the test");
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION* extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    if (X509_sign(certificate, key.get(), EVP_sha256()) == 0)
      throw std::runtime_error("cannot sign a certificate");
    write(certificate_, [&](BIO* out) { PEM_write_bio_X509(out, certificate); });
    write(key_, [&](BIO* out) {
      PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }

  const std::filesystem::path& certificate() const { return certificate_; }
  const std::filesystem::path& key() const { return key_; }

 private:
  template <typename Print>
  static void write(const std::filesystem::path& path, Print&& print) {
    const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new(BIO_s_mem()), BIO_free);
    print(out.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    write_file_atomically(path, {data, static_cast<std::size_t>(size)}, 0600);
  }

  std::filesystem::path certificate_, key_;
};

}  // namespace cohort
