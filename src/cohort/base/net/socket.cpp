#include "cohort/base/net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

std::string reason(int code) { return std::generic_category().message(code); }

UniqueFd open_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd)
    throw SystemError(
        "cannot create a socket", errno,
        {.advice = errno == EMFILE ? "Raise the limit of open files (ulimit -n)." : ""});
  return fd;
}

SystemError accept_error(int code) {
  return SystemError(
      "cannot accept a connection", code,
      {.advice = code == EMFILE ? "Raise the limit of open files (ulimit -n)." : ""});
}

// A host that vanishes sends no reset: keep-alives find out within half a minute.
void set_tcp_options(int fd, int family) {
  if (family == AF_UNIX) return;
  auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

SocketAddress name_of(int fd, decltype(&::getsockname) get) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (get(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) address.size = 0;
  return address;
}

// 0 when connected, else the errno.
int try_connect(int fd, const SocketAddress& address, Deadline deadline) {
  if (::connect(fd, address.get(), address.size) == 0)
    return is_connected_to_itself(fd) ? ECONNREFUSED : 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_ready(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) return errno;
  if (code == 0 && is_connected_to_itself(fd)) return ECONNREFUSED;
  return code;
}

}  // namespace

UniqueFd listen_on(const Endpoint& endpoint, int backlog) {
  int code = EADDRNOTAVAIL;
  for (const auto& address : resolve(endpoint, Deadline::after(std::chrono::seconds(10)))) {
    UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int on = 1;
    if (fd && endpoint.is_tcp()) {
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      set_tcp_options(fd.get(), address.family());  // inherited by accepted connections
    }
    // The system makes the file with the socket's own mode: never is it anybody else's.
    if (fd && endpoint.kind() == Endpoint::Kind::unix_path) ::fchmod(fd.get(), 0600);
    if (fd && ::bind(fd.get(), address.get(), address.size) == 0 &&
        ::listen(fd.get(), backlog) == 0)
      return fd;
    code = errno;
  }
  std::string advice;
  if (code == EADDRINUSE)
    advice = endpoint.is_tcp() ? "Another program listens there: choose another port, or end it."
                               : "Remove the file if no program uses it any more.";
  else if (code == EADDRNOTAVAIL)
    advice = "That address is not one of this machine's: see `ip address`.";
  else if (code == EACCES)
    advice = endpoint.is_tcp() ? "Ports below 1024 need privileges: choose a higher one."
                               : "Choose a folder that you may write to.";
  throw SystemError(fmt::format("cannot listen on {}", endpoint.to_string()), code,
                    {.advice = std::move(advice)});
}

bool is_connected_to_itself(int fd) {
  SocketAddress mine = name_of(fd, ::getsockname);
  return mine.family() != AF_UNIX && mine.size > 0 &&
         mine.endpoint() == name_of(fd, ::getpeername).endpoint();
}

Endpoint local_endpoint(int fd) {
  SocketAddress address = name_of(fd, ::getsockname);
  if (address.size == 0) throw SystemError("cannot tell the address of a socket", errno);
  return address.endpoint();
}

std::string peer_name(int fd) {
  SocketAddress address = name_of(fd, ::getpeername);
  if (address.size == 0) return "unknown peer";
  return address.endpoint().to_string();
}

AcceptResult try_accept(int listener) {
  while (true) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return {.socket = std::move(fd)};
    switch (errno) {
      case EAGAIN:
        return {};
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return {.socket = {}, .code = errno};
      case EBADF:
      case EFAULT:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
        throw SystemError("cannot accept a connection", errno);
      default:  // a connection that failed before it was accepted, see accept(2)
        break;
    }
  }
}

std::string accept_failure(int code) { return accept_error(code).what(); }

UniqueFd accept_ready(int listener) {
  AcceptResult result = try_accept(listener);
  if (result.is_exhausted()) throw accept_error(result.code);
  return std::move(result.socket);
}

UniqueFd accept_from(int listener, Deadline deadline) {
  while (true) {
    UniqueFd fd = accept_ready(listener);
    if (fd) return fd;
    if (!wait_ready(listener, POLLIN, deadline))
      throw TimeoutError(
          fmt::format("no process connected to {} in time", local_endpoint(listener).to_string()));
  }
}

UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline) {
  int code = ECONNREFUSED;
  for (const auto& address : resolve(endpoint, deadline)) {
    UniqueFd fd = open_socket(address.family());
    set_tcp_options(fd.get(), address.family());
    code = try_connect(fd.get(), address, deadline);
    if (code == 0) return fd;
    if (deadline.expired()) break;
  }
  std::string message = fmt::format("cannot connect to {}: {}", endpoint.to_string(), reason(code));
  if (deadline.expired() && code == ETIMEDOUT)
    throw TimeoutError(std::move(message),
                       {.advice = "Check the address and that no firewall drops the packets."});
  throw PeerError(std::move(message),
                  {.advice = "Check that the process there runs and listens on this address."});
}

UniqueFd connect_with_retry(const Endpoint& endpoint, Deadline deadline) {
  milliseconds pause(2);
  std::optional<PeerError> reason;
  auto give_up = [&] {
    throw TimeoutError(fmt::format("{} (tried repeatedly)", reason->message()), reason->context());
  };
  while (true) {
    try {
      return connect_to(endpoint, deadline);
    } catch (const PeerError& error) {
      reason = error;
      if (deadline.expired()) give_up();
    } catch (const TimeoutError&) {
      // The last attempt may have had no time left at all: the one before it tells more.
      if (!reason) throw;
      give_up();
    }
    WaitInterrupt::ask();
    auto nap = std::min<Deadline::Clock::duration>(pause, deadline.remaining());
    ::poll(nullptr, 0, static_cast<int>(std::chrono::ceil<milliseconds>(nap).count()));
    pause = std::min(pause * 2, milliseconds(200));
  }
}

bool wait_ready(int fd, short events, Deadline deadline) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  while (true) {
    int count = ::poll(&entry, 1, deadline.poll_timeout_ms());
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw SystemError("cannot wait for a socket", errno);
    if (deadline.expired()) return false;
  }
}

IoResult read_some(int fd, void* data, std::size_t size) {
  while (true) {
    ssize_t count = ::recv(fd, data, size, 0);
    if (count > 0) return {IoResult::Status::progress, static_cast<std::size_t>(count)};
    if (count == 0) return {IoResult::Status::closed};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoResult::Status::would_block};
    return {IoResult::Status::failed, 0, errno};
  }
}

IoResult write_some(int fd, std::string_view bytes) {
  while (true) {
    ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return {IoResult::Status::progress, static_cast<std::size_t>(count)};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoResult::Status::would_block};
    return {IoResult::Status::failed, 0, errno};
  }
}

void send_all(int fd, std::string_view bytes, Deadline deadline, const std::string& peer) {
  while (!bytes.empty()) {
    IoResult result = write_some(fd, bytes);
    if (result.status == IoResult::Status::progress)
      bytes.remove_prefix(result.count);
    else if (result.status == IoResult::Status::failed)
      throw PeerError(fmt::format("lost the connection to {}: {}", peer, reason(result.code)));
    else if (!wait_ready(fd, POLLOUT, deadline))
      throw TimeoutError(fmt::format("{} did not take {} bytes in time", peer, bytes.size()));
  }
}

void recv_all(int fd, void* data, std::size_t size, Deadline deadline, const std::string& peer) {
  auto* next = static_cast<char*>(data);
  while (size > 0) {
    IoResult result = read_some(fd, next, size);
    if (result.status == IoResult::Status::progress) {
      next += result.count;
      size -= result.count;
    } else if (result.status == IoResult::Status::closed) {
      throw PeerError(fmt::format("{} closed the connection", peer));
    } else if (result.status == IoResult::Status::failed) {
      throw PeerError(fmt::format("lost the connection to {}: {}", peer, reason(result.code)));
    } else if (!wait_ready(fd, POLLIN, deadline)) {
      throw TimeoutError(fmt::format("{} sent nothing in time ({} bytes missing)", peer, size));
    }
  }
}

}  // namespace cohort
