#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"

// Unix sockets in the abstract namespace, and file descriptors sent over them. Every call throws
// SystemError, or TimeoutError at the deadline.
namespace cohort::transport::shm {

struct FdMessage {
  std::uint64_t value = 0;
  UniqueFd fd;
};

UniqueFd listen_abstract(const std::string& name);
UniqueFd connect_abstract(const std::string& name, Deadline deadline);
UniqueFd accept_from(int listener, Deadline deadline);
// True when the process at the other end runs as the same user as this one.
bool peer_is_same_user(int socket);

void send_fd(int socket, std::uint64_t value, int fd, Deadline deadline);
FdMessage receive_fd(int socket, Deadline deadline);

}  // namespace cohort::transport::shm
