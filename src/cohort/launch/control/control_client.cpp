#include "cohort/launch/control/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/control/control_socket.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kLongestAnswer = 64 * 1024 * 1024;
constexpr int kPauseMs = 20;

// A socket file whose launcher was killed is of no use to anybody.
void remove_own_socket(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
      status.st_uid == ::geteuid())
    ::unlink(path.c_str());
}

UniqueFd connect_to_launcher(const std::filesystem::path& path, Deadline deadline) {
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path.native().size() >= sizeof address.sun_path || path.empty())
    throw PeerError(fmt::format("'{}' is not the path of a socket", path.string()));
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw SystemError("cannot make a socket", errno);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int code = errno;
    if (code == EINTR) continue;
    if (code == ECONNREFUSED) remove_own_socket(path);
    if (code == ECONNREFUSED || code == ENOENT || code == ENOTDIR)
      throw PeerError(fmt::format("no launcher listens at '{}'", path.string()));
    if (code != EAGAIN)
      throw SystemError(fmt::format("cannot connect to '{}'", path.string()), code);
    if (deadline.expired())  // as many wait already as the system lets
      throw TimeoutError(fmt::format("too many wait at its socket '{}'", path.string()));
    ::poll(nullptr, 0, kPauseMs);
  }
  return fd;
}

// Nothing: it closed the connection instead of answering, because it has too many, or ends.
std::optional<std::string> ask_once(const std::filesystem::path& socket, std::string_view request,
                                    Deadline deadline) {
  const UniqueFd fd = connect_to_launcher(socket, deadline);
  if (const uid_t user = peer_user(fd.get()); user != ::geteuid() && user != 0 && ::geteuid() != 0)
    throw PeerError(fmt::format("the socket '{}' belongs to another user", socket.string()));
  const std::string peer = fmt::format("the launcher at '{}'", socket.string());
  try {
    send_all(fd.get(), std::string(request) + "\n", deadline, peer);
  } catch (const PeerError&) {
    return std::nullopt;
  }
  std::string answer;
  char buffer[65536];
  while (!answer.ends_with('\n')) {
    if (!wait_ready(fd.get(), POLLIN, deadline))
      throw TimeoutError(fmt::format("{} does not answer", peer));
    const IoResult result = read_some(fd.get(), buffer, sizeof buffer);
    if (result.status == IoResult::Status::would_block) continue;
    if (answer.size() > kLongestAnswer) throw PeerError(fmt::format("{} does not end", peer));
    if (result.status != IoResult::Status::progress) return std::nullopt;
    answer.append(buffer, result.count);
  }
  answer.pop_back();
  return answer;
}

}  // namespace

std::string ask_launcher(const std::filesystem::path& socket, std::string_view request,
                         Deadline deadline) {
  while (true) {
    if (auto answer = ask_once(socket, request, deadline)) return *answer;
    if (deadline.expired())
      throw TimeoutError(fmt::format("it turns all clients away at '{}'", socket.string()));
    ::poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace cohort::launch
