#include "cohort/base/net/tls_socket.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "cohort/base/error.h"

namespace cohort {
namespace {

// OpenSSL's own socket BIO writes with write(), which raises SIGPIPE.
int bio_fd(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::send(bio_fd(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::recv(bio_fd(bio), data, static_cast<std::size_t>(size), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> method = [] {
    std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> made(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cohort socket"), BIO_meth_free);
    if (!made) throw Error(fmt::format("cannot set up TLS: {}", openssl_reason()));
    BIO_meth_set_write(made.get(), bio_write);
    BIO_meth_set_read(made.get(), bio_read);
    BIO_meth_set_ctrl(made.get(), bio_ctrl);
    return made;
  }();
  return method.get();
}

class TlsSocket : public Channel {
 public:
  TlsSocket(SslPtr ssl, UniqueFd socket, void (*check)(SSL*))
      : socket_(std::move(socket)), ssl_(std::move(ssl)), check_(check) {
    BIO* bio = BIO_new(socket_method());
    if (bio == nullptr) throw Error(fmt::format("cannot start TLS: {}", openssl_reason()));
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket_.get())));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
  }

  int fd() const override { return socket_.get(); }

  IoResult greet() override {
    ERR_clear_error();
    const int code = SSL_do_handshake(ssl_.get());
    if (code == 1) {
      if (check_ != nullptr) check_(ssl_.get());
      return {};
    }
    const int error = SSL_get_error(ssl_.get(), code);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
      return {IoResult::Status::would_block, 0, 0};
    if (error == SSL_ERROR_SSL) {
      const std::string reason = openssl_reason();
      const long verdict = SSL_get_verify_result(ssl_.get());
      if (verdict == X509_V_OK)
        throw AuthError(fmt::format("TLS with the other side failed: {}", reason));
      throw AuthError(
          fmt::format("TLS with the other side failed: {}", X509_verify_cert_error_string(verdict)),
          {.advice = "Name a PEM file with a certificate to trust (COHORT_CA_FILE), and "
                     "the host as the certificate does."});
    }
    return failure(error);
  }

  bool waits_to_write() const override { return SSL_want_write(ssl_.get()) == 1; }

  IoResult read(const iovec* places, int count) override {
    return repeat(places, count, [&](std::byte* place, std::size_t size, std::size_t& moved) {
      return SSL_read_ex(ssl_.get(), place, size, &moved);
    });
  }

  IoResult write(const iovec* places, int count) override {
    return repeat(places, count, [&](std::byte* place, std::size_t size, std::size_t& moved) {
      return SSL_write_ex(ssl_.get(), place, size, &moved);
    });
  }

  void finish() noexcept override {
    if (SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ::shutdown(socket_.get(), SHUT_WR);
  }

 private:
  // OpenSSL takes one place at a time, and a record of it at most.
  template <typename Move>
  IoResult repeat(const iovec* places, int count, Move&& move) {
    std::size_t total = 0;
    for (int i = 0; i < count; ++i) {
      auto* place = static_cast<std::byte*>(places[i].iov_base);
      for (std::size_t filled = 0; filled < places[i].iov_len;) {
        ERR_clear_error();
        std::size_t moved = 0;
        const int code = move(place + filled, places[i].iov_len - filled, moved);
        if (code != 1) {
          // A record that is not authentic throws here, whatever came before it.
          const IoResult result = failure(SSL_get_error(ssl_.get(), code));
          return total > 0 ? IoResult{IoResult::Status::progress, total, 0} : result;
        }
        filled += moved;
        total += moved;
      }
    }
    return {IoResult::Status::progress, total, 0};
  }

  static IoResult failure(int error) {
    switch (error) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {IoResult::Status::would_block, 0, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {IoResult::Status::closed, 0, 0};
      case SSL_ERROR_SYSCALL: {
        const int code = errno;
        ERR_clear_error();
        if (code == 0) return {IoResult::Status::closed, 0, 0};
        return {IoResult::Status::failed, 0, code};
      }
      default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
          ERR_clear_error();
          return {IoResult::Status::closed, 0, 0};
        }
        throw ProtocolError(
            fmt::format("the TLS connection was damaged on the way: {}", openssl_reason()));
    }
  }

  UniqueFd socket_;
  SslPtr ssl_;
  void (*check_)(SSL*);
};

}  // namespace

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? reason : "no reason given";
}

void FreeSsl::operator()(SSL* ssl) const { SSL_free(ssl); }

std::unique_ptr<Channel> make_tls_socket(SslPtr ssl, UniqueFd socket, void (*check)(SSL*)) {
  return std::make_unique<TlsSocket>(std::move(ssl), std::move(socket), check);
}

}  // namespace cohort
