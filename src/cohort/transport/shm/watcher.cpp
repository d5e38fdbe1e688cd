#include "cohort/transport/shm/watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/process/process.h"

namespace cohort::transport::shm {

Watcher::Watcher(Arena& arena) : arena_(arena), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw SystemError("make an eventfd", errno);
  for (int rank = 0; rank < arena.size(); ++rank) {
    const ArenaMember& member = arena.member(rank);
    if (member.pid == ::getpid()) continue;
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, member.pid, 0)));
    if (!pidfd && errno != ESRCH)
      throw SystemError(fmt::format("watch process {} (pidfd_open)", member.pid), errno,
                        {.advice = "Cohort needs Linux 5.3 or later."});
    if (!pidfd || process_start_time(member.pid) != member.start_time)
      arena.mark_dead(rank);
    else
      peers_.emplace_back(rank, std::move(pidfd));
  }
  if (!peers_.empty()) thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Watcher::run() {
  std::vector<pollfd> entries{{stop_.get(), POLLIN, 0}};
  for (const auto& [rank, pidfd] : peers_) entries.push_back({pidfd.get(), POLLIN, 0});
  while (true) {
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[0].revents != 0) return;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      arena_.mark_dead(peers_[i - 1].first);
      entries[i].fd = -1;
    }
  }
}

}  // namespace cohort::transport::shm
