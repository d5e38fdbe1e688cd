#pragma once

#include <sys/uio.h>

#include <memory>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/unique_fd.h"

namespace cohort::transport::tcp {

// Bytes to and from one connected socket, which it owns: as they are, or through TLS. Never blocks.
// Confined to one thread at a time. Never raises SIGPIPE.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual int fd() const = 0;

  // To be called until it reports progress; before that nothing else is. Throws AuthError when the
  // other side is not who it should be.
  virtual IoResult greet() = 0;
  virtual IoResult read(const iovec* places, int count) = 0;
  virtual IoResult write(const iovec* places, int count) = 0;
  // No more writing: the peer reads the end after what was written. Best effort.
  virtual void finish() noexcept = 0;
};

std::unique_ptr<Channel> make_plain_channel(UniqueFd socket);

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

}  // namespace cohort::transport::tcp
