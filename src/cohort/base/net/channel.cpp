#include "cohort/base/net/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/net/descriptor_passing.h"

namespace cohort {
namespace {

IoResult io_result(ssize_t count) {
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
  IoResult read(const iovec* places, int count) override {
    return io_result(::readv(socket_.get(), places, count));
  }
  IoResult write(const iovec* places, int count) override {
    return io_result(send_with_file(socket_.get(), places, count, -1, 0));
  }

 private:
  UniqueFd socket_;
};

class UnixChannel : public Channel {
 public:
  explicit UnixChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  IoResult read(const iovec* places, int count) override {
    return io_result(receive_with_file(socket_.get(), places, count, MSG_DONTWAIT, file_in_));
  }
  IoResult write(const iovec* places, int count) override {
    const IoResult result =
        io_result(send_with_file(socket_.get(), places, count, file_out_, MSG_DONTWAIT));
    if (result.status == IoResult::Status::progress) file_out_ = -1;
    return result;
  }
  bool passes_files() const override { return true; }
  void attach(int file) override { file_out_ = file; }
  UniqueFd take_file() override { return std::move(file_in_); }

 private:
  UniqueFd socket_;
  int file_out_ = -1;
  UniqueFd file_in_;
};

}  // namespace

void Channel::finish() noexcept { ::shutdown(fd(), SHUT_WR); }

void Channel::attach(int) { COHORT_CHECK(false, "only a Unix socket carries descriptors"); }

std::unique_ptr<Channel> make_plain_channel(UniqueFd socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

std::unique_ptr<Channel> make_unix_channel(UniqueFd socket) {
  return std::make_unique<UnixChannel>(std::move(socket));
}

void throw_gone(const IoResult& result) {
  if (result.status == IoResult::Status::closed) throw PeerError("its connection was closed");
  throw PeerError(fmt::format("its connection broke: {}", std::strerror(result.code)));
}

}  // namespace cohort
