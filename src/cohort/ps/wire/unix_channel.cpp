#include "cohort/ps/wire/unix_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace cohort::ps {

namespace {

// Room for one descriptor, aligned as the kernel's macros want it. More are closed by the kernel.
union FileRoom {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

IoResult result_of(ssize_t count) {
  if (count > 0) return {IoResult::Status::progress, static_cast<std::size_t>(count), 0};
  if (count == 0) return {IoResult::Status::closed, 0, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
    return {IoResult::Status::would_block, 0, 0};
  return {IoResult::Status::failed, 0, errno};
}

}  // namespace

UnixChannel::UnixChannel(UniqueFd socket) : socket_(std::move(socket)) {}

IoResult UnixChannel::read(const iovec* places, int count) {
  FileRoom room;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(places);
  message.msg_iovlen = static_cast<std::size_t>(count);
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  const IoResult result =
      result_of(::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
  if (result.status != IoResult::Status::progress) return result;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    file_in_.reset(file);
  }
  return result;
}

IoResult UnixChannel::write(const iovec* places, int count) {
  FileRoom room{};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(places);
  message.msg_iovlen = static_cast<std::size_t>(count);
  if (file_out_ >= 0) {
    message.msg_control = room.bytes;
    message.msg_controllen = sizeof room.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file_out_);
    std::memcpy(CMSG_DATA(header), &file_out_, sizeof file_out_);
  }
  const IoResult result =
      result_of(::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
  if (result.status == IoResult::Status::progress) file_out_ = -1;
  return result;
}

void UnixChannel::finish() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

}  // namespace cohort::ps
