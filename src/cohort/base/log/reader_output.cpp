#include "cohort/base/log/reader_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>

namespace cohort {
namespace {

constexpr int kMomentMs = 200;

bool stop_is_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 &&
         (::sigismember(&pending, SIGINT) == 1 || ::sigismember(&pending, SIGTERM) == 1);
}

bool wait_for_room(int fd, bool drop_if_blocked) {
  pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
  while (true) {
    int ready = ::poll(&entry, 1, kMomentMs);
    if (ready > 0) return true;  // room, or an error that write() names
    if (ready == 0 && (drop_if_blocked || stop_is_pending())) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// What may go out at once without blocking: whole lines where they fit.
std::string_view first_piece(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  size_t newline = text.rfind('\n', PIPE_BUF - 1);
  return text.substr(0, newline == std::string_view::npos ? PIPE_BUF : newline + 1);
}

}  // namespace

bool write_to_reader(int fd, std::string_view text, bool drop_if_blocked) {
  while (!text.empty()) {
    if (!wait_for_room(fd, drop_if_blocked)) return false;
    ssize_t count = ::write(fd, text.data(), first_piece(text).size());
    if (count >= 0)
      text.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR && errno != EAGAIN)
      return false;
  }
  return true;
}

}  // namespace cohort
