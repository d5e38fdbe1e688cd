#pragma once

#include <sys/uio.h>

#include <memory>

#include "cohort/base/net/socket.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// Bytes to and from one connected socket, which it owns: as they are, through TLS (tls_channel.h),
// or with descriptors beside them. Never blocks. Confined to one thread at a time. Never raises
// SIGPIPE.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual int fd() const = 0;

  // To be called until it reports progress; before that nothing else is. Throws AuthError when the
  // other side is not who it should be.
  virtual IoResult greet() { return {}; }
  // What greet() waits for when it would block: room to write, else something to read.
  virtual bool waits_to_write() const { return false; }
  virtual IoResult read(const iovec* places, int count) = 0;
  virtual IoResult write(const iovec* places, int count) = 0;
  // No more writing: the peer reads the end after what was written. Best effort.
  virtual void finish() noexcept;

  // Descriptors travel over Unix sockets only.
  virtual bool passes_files() const { return false; }
  // `file`, the caller's, goes with the first byte of the next write that makes progress.
  virtual void attach(int file);
  // The descriptor that came with the last read. Its message is the one that the last byte of that
  // read belongs to: the system reads no further than the write that carried it.
  virtual UniqueFd take_file() { return {}; }
};

std::unique_ptr<Channel> make_plain_channel(UniqueFd socket);
std::unique_ptr<Channel> make_unix_channel(UniqueFd socket);  // passes files

// PeerError for a read or write that ended a connection.
[[noreturn]] void throw_gone(const IoResult& result);

}  // namespace cohort
