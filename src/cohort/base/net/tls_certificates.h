#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cohort/base/net/channel.h"
#include "cohort/base/unique_fd.h"

// TLS 1.2 or later where the server proves itself by a certificate, as web servers do. Thread-safe;
// each must outlive its channels. greet() of a channel throws AuthError when the other side fails.
namespace cohort {

class TlsServerContext {
 public:
  // PEM files: the certificate and those above it, its key. Throws InvalidInput that names them.
  TlsServerContext(const std::filesystem::path& certificate, const std::filesystem::path& key);
  ~TlsServerContext();
  std::unique_ptr<Channel> make_channel(UniqueFd socket) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class TlsClientContext {
 public:
  // `ca_file`: PEM file of the certificates to trust; the system's if empty. `certificate` and
  // `key`: PEM files by which this side proves itself; empty: it does not. Throws InvalidInput.
  explicit TlsClientContext(const std::filesystem::path& ca_file,
                            const std::filesystem::path& certificate = {},
                            const std::filesystem::path& key = {});
  ~TlsClientContext();
  // `host`: the name or IP address that the server's certificate must be for.
  std::unique_ptr<Channel> make_channel(UniqueFd socket, const std::string& host) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort
