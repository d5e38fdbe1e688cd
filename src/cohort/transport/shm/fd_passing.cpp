#include "cohort/transport/shm/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/net/descriptor_passing.h"

namespace cohort::transport::shm {

namespace {

constexpr int kShortagePauseMs = 20;

void wait_for(int fd, short events, const char* what, Deadline deadline) {
  pollfd entry{fd, events, 0};
  while (true) {
    const int result = ::poll(&entry, 1, deadline.poll_timeout_ms());
    if (result > 0) return;
    if (result == 0) throw TimeoutError(fmt::format("no peer on this host in time: {}", what));
    if (errno != EINTR) throw SystemError("poll", errno);
  }
}

socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  COHORT_CHECK(name.size() + 1 < sizeof address.sun_path, "socket name '{}' is too long", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

UniqueFd unix_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw SystemError("make a Unix socket", errno);
  return fd;
}

}  // namespace

UniqueFd listen_abstract(const std::string& name) {
  UniqueFd fd = unix_socket();
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    throw SystemError("bind the Unix socket @" + name, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) throw SystemError("listen on @" + name, errno);
  return fd;
}

UniqueFd connect_abstract(const std::string& name, Deadline deadline) {
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  UniqueFd fd = unix_socket();
  // A full backlog makes connect() block, so the deadline is the socket's send timeout.
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
      std::min(deadline.remaining(), Deadline::Clock::duration(std::chrono::hours(1))));
  timeval timeout{micros.count() / 1'000'000, micros.count() % 1'000'000 + 1};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  while (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN)
      throw TimeoutError("the leader of this host did not take the connection in time");
    if (errno != EINTR) throw SystemError("connect to the Unix socket @" + name, errno);
  }
  return fd;
}

UniqueFd accept_from(int listener, Deadline deadline) {
  while (true) {
    wait_for(listener, POLLIN, "waiting for a connection", deadline);
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) return fd;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // A shortage of this machine, for the moment perhaps: the connection stays in the queue.
      const int code = errno;
      if (deadline.expired()) throw SystemError("accept a connection", code);
      ::poll(nullptr, 0, kShortagePauseMs);
    } else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
      throw SystemError("accept a connection", errno);
    }
  }
}

bool peer_is_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

void send_fd(int socket, std::uint64_t value, int fd, Deadline deadline) {
  const iovec data{&value, sizeof value};
  wait_for(socket, POLLOUT, "sending the memory segment", deadline);
  if (send_with_file(socket, &data, 1, fd, 0) != static_cast<ssize_t>(sizeof value))
    throw SystemError("send the memory segment", errno);
}

FdMessage receive_fd(int socket, Deadline deadline) {
  FdMessage result;
  const iovec data{&result.value, sizeof result.value};
  wait_for(socket, POLLIN, "waiting for the memory segment", deadline);
  const ssize_t got = receive_with_file(socket, &data, 1, 0, result.fd);
  if (got < 0) throw SystemError("receive the memory segment", errno);
  if (got != static_cast<ssize_t>(sizeof result.value) || !result.fd)
    throw PeerError("the leader of this host closed the connection before it sent the memory");
  return result;
}

}  // namespace cohort::transport::shm
