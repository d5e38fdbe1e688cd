#pragma once

#include <memory>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/net/channel.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// TLS 1.3 between holders of one key, without certificates: an external pre-shared key with an
// ephemeral Diffie-Hellman exchange, so that recorded traffic stays secret when the key leaks.
// Thread-safe. Must outlive its channels.
class TlsContext {
 public:
  explicit TlsContext(const Digest& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  std::unique_ptr<Channel> make_channel(UniqueFd socket, bool server) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort
