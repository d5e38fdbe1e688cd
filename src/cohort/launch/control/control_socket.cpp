#include "cohort/launch/control/control_socket.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort::launch {
namespace {

using Status = IoResult::Status;

constexpr std::size_t kReadAtOnce = 4096;

// sun_path has 108 bytes, one of them for the end.
bool fits(const std::filesystem::path& path) {
  return path.native().size() < sizeof(sockaddr_un::sun_path);
}

}  // namespace

uid_t peer_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw SystemError("cannot see who is at the other end of a control socket", errno);
  return peer.uid;
}

std::filesystem::path ControlSocket::new_path() {
  std::random_device random;
  const std::string name = fmt::format("cohort-{:08x}{:08x}.sock", random(), random());
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime == '/' && ::access(runtime, W_OK | X_OK) == 0)
    if (auto path = std::filesystem::path(runtime) / name; fits(path)) return path;
  std::error_code ignored;
  if (auto path = std::filesystem::temp_directory_path(ignored) / name; !ignored && fits(path))
    return path;
  return std::filesystem::path("/tmp") / name;
}

ControlSocket::ControlSocket(std::filesystem::path path, EventLoop& loop, Handler handler)
    : path_(std::move(path)), loop_(loop), handler_(std::move(handler)) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path_.native().copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode before bind() is that of the file, which is thus never open to others.
  if (!listener || ::fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0 ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw SystemError(fmt::format("cannot make the control socket '{}'", path_.string()), errno);
  if (::listen(listener.get(), kMostClients) != 0) {
    const int code = errno;
    ::unlink(path_.c_str());
    throw SystemError(fmt::format("cannot listen on the control socket '{}'", path_.string()),
                      code);
  }
  acceptor_.emplace(loop_, std::move(listener), "the control socket",
                    [this](UniqueFd fd) { add(std::move(fd)); });
}

ControlSocket::~ControlSocket() {
  while (!clients_.empty()) close(clients_.begin()->first);
  acceptor_.reset();
  ::unlink(path_.c_str());
}

void ControlSocket::add(UniqueFd fd) {
  if (clients_.size() >= kMostClients) return;
  const uid_t user = peer_user(fd.get());
  if (user != ::geteuid() && user != 0) return;
  const int number = fd.get();
  Client& client = clients_[number];
  client.fd = std::move(fd);
  restart_timer(number, client);
  loop_.add(number, EPOLLIN, [this, number](std::uint32_t) { serve(number); });
}

void ControlSocket::serve(int fd) {
  Client& client = clients_.at(fd);
  // Nothing is read while an answer waits: a client that asks without reading fills its own pipe only.
  if (!(client.output.empty() ? read(client) : write(client)) || !answer(client)) return close(fd);
  loop_.modify(fd, client.output.empty() ? EPOLLIN : EPOLLOUT);
  restart_timer(fd, client);
}

bool ControlSocket::read(Client& client) {
  char buffer[kReadAtOnce];
  const IoResult result = read_some(client.fd.get(), buffer, sizeof buffer);
  if (result.status == Status::would_block) return true;
  if (result.status != Status::progress) return false;
  client.input.append(buffer, result.count);
  return true;
}

bool ControlSocket::answer(Client& client) {
  while (client.output.empty()) {
    const std::size_t end = client.input.find('\n');
    if (end == std::string::npos) return client.input.size() <= kLongestLine;
    client.output = handler_(std::string_view(client.input).substr(0, end)) + "\n";
    client.input.erase(0, end + 1);
    if (!write(client)) return false;
  }
  return true;
}

bool ControlSocket::write(Client& client) {
  while (!client.output.empty()) {
    const IoResult result = write_some(client.fd.get(), client.output);
    if (result.status == Status::would_block) return true;
    if (result.status != Status::progress) return false;
    client.output.erase(0, result.count);
  }
  return true;
}

void ControlSocket::close(int fd) {
  loop_.remove(fd);
  loop_.cancel(clients_.at(fd).timer);
  clients_.erase(fd);
}

void ControlSocket::restart_timer(int fd, Client& client) {
  loop_.cancel(client.timer);
  client.timer = loop_.call_after(kSilence, [this, fd] { close(fd); });
}

}  // namespace cohort::launch
