#include <sys/socket.h>

#include <cerrno>

#include "cohort/transport/tcp/channel.h"

namespace cohort::transport::tcp {

namespace {

IoResult result_of(ssize_t count) {
  if (count > 0) return {IoResult::Status::progress, static_cast<std::size_t>(count), 0};
  if (count == 0) return {IoResult::Status::closed, 0, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
    return {IoResult::Status::would_block, 0, 0};
  return {IoResult::Status::failed, 0, errno};
}

class PlainChannel : public Channel {
 public:
  explicit PlainChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  IoResult greet() override { return {}; }

  IoResult read(const iovec* places, int count) override {
    return result_of(::readv(socket_.get(), places, count));
  }

  IoResult write(const iovec* places, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(places);
    message.msg_iovlen = static_cast<std::size_t>(count);
    return result_of(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
  }

  void finish() noexcept override { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  UniqueFd socket_;
};

}  // namespace

std::unique_ptr<Channel> make_plain_channel(UniqueFd socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

}  // namespace cohort::transport::tcp
