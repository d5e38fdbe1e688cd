#pragma once

#include <memory>
#include <string>

#include "cohort/base/net/channel.h"
#include "cohort/base/unique_fd.h"

typedef struct ssl_st SSL;

// What every use of OpenSSL on a socket has in common, with a shared key or with certificates.
namespace cohort {

struct FreeSsl {
  void operator()(SSL* ssl) const;
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

// A channel through `ssl`, which is set to connect or to accept. `check` is called when the
// handshake is done, and throws AuthError; null for none.
std::unique_ptr<Channel> make_tls_socket(SslPtr ssl, UniqueFd socket, void (*check)(SSL* ssl));

// The first error that OpenSSL has noted on this thread, in its words; notes no more.
std::string openssl_reason();

}  // namespace cohort
