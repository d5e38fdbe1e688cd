#include "cohort/launch/control_client.h"

#include <poll.h>
#include <unistd.h>

#include "cohort/base/endpoint.h"
#include "cohort/base/error.h"
#include "cohort/base/socket.h"
#include "cohort/launch/control_socket.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kLongestAnswer = 64 * 1024 * 1024;

}  // namespace

std::string ask_launcher(const std::filesystem::path& socket, std::string_view request,
                         Deadline deadline) {
  const UniqueFd fd = connect_to(Endpoint::unix_path(socket.string()), deadline);
  if (const uid_t user = peer_user(fd.get()); user != ::geteuid() && user != 0 && ::geteuid() != 0)
    throw PeerError(fmt::format("the socket '{}' belongs to another user", socket.string()));
  const std::string peer = fmt::format("the launcher at '{}'", socket.string());
  send_all(fd.get(), std::string(request) + "\n", deadline, peer);
  std::string answer;
  char buffer[65536];
  while (!answer.ends_with('\n')) {
    if (!wait_ready(fd.get(), POLLIN, deadline))
      throw TimeoutError(fmt::format("{} does not answer", peer));
    const IoResult result = read_some(fd.get(), buffer, sizeof buffer);
    if (result.status == IoResult::Status::would_block) continue;
    if (result.status != IoResult::Status::progress || answer.size() > kLongestAnswer)
      throw PeerError(fmt::format("{} broke off", peer));
    answer.append(buffer, result.count);
  }
  answer.pop_back();
  return answer;
}

}  // namespace cohort::launch
