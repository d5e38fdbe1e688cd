#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "cohort/base/unique_fd.h"

// sendmsg() and recvmsg() on a Unix stream socket, with at most one file descriptor beside the
// bytes. Results and errno are those of the system calls. Functions without state.
namespace cohort {

// `file` stays the caller's; -1: none. It goes with the first byte. Never raises SIGPIPE.
ssize_t send_with_file(int socket, const iovec* places, int count, int file, int flags);

// `file` is the descriptor that came with these bytes, or none; more than one are closed by the
// system. A read goes no further than the write that carried a descriptor.
ssize_t receive_with_file(int socket, const iovec* places, int count, int flags, UniqueFd& file);

}  // namespace cohort
