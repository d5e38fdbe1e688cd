#include "cohort/base/net/descriptor_passing.h"

#include <sys/socket.h>

#include <cstring>

namespace cohort {
namespace {

// Room for one descriptor, aligned as the kernel's macros want it.
union DescriptorBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

ssize_t send_with_file(int socket, const iovec* places, int count, int file, int flags) {
  DescriptorBuffer buffer{};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(places);
  message.msg_iovlen = static_cast<std::size_t>(count);
  if (file >= 0) {
    message.msg_control = buffer.bytes;
    message.msg_controllen = sizeof buffer.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

ssize_t receive_with_file(int socket, const iovec* places, int count, int flags, UniqueFd& file) {
  DescriptorBuffer buffer{};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(places);
  message.msg_iovlen = static_cast<std::size_t>(count);
  message.msg_control = buffer.bytes;
  message.msg_controllen = sizeof buffer.bytes;
  const ssize_t got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (got <= 0) return got;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    file.reset(received);
  }
  return got;
}

}  // namespace cohort
