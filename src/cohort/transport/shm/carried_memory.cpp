#include "cohort/transport/shm/carried_memory.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "cohort/base/deadline.h"
#include "cohort/base/process/process.h"
#include "cohort/base/unique_fd.h"
#include "cohort/transport/shm/mapped_arena.h"

namespace cohort::transport::shm {

namespace {

// A killed process may be known by its closed connections before its last thread is gone.
constexpr std::chrono::milliseconds kEndingTime{20};

std::string claim_of(const ArenaMemory& memory, int part) {
  return fmt::format("{} {}", memory.name(), part);
}

// A pidfd is readable when the last thread has ended; /proc knows of the first one only.
bool has_ended(const ArenaMember& member, Deadline deadline) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, member.pid, 0)));
  if (!pidfd) return errno == ESRCH;
  if (process_start_time(member.pid) != member.start_time) return true;
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, deadline.poll_timeout_ms()) > 0;
}

}  // namespace

std::string CarriedMemory::claim() const {
  return memory_ ? claim_of(*memory_, memory_->part()) : "";
}

std::shared_ptr<ArenaMemory> CarriedMemory::common(std::span<const std::string> claims) const {
  if (!memory_ || claims.empty()) return nullptr;
  std::size_t found = 0;
  for (int part = 0; part < memory_->layout().size; ++part)
    found += static_cast<std::size_t>(
        std::count(claims.begin(), claims.end(), claim_of(*memory_, part)));
  return found == claims.size() ? memory_ : nullptr;
}

bool CarriedMemory::belongs_to(const ArenaMemory& memory, std::span<const std::string> claims) {
  const Deadline deadline = Deadline::after(kEndingTime);
  // The first arena's table names every process that has the memory.
  const auto* members = reinterpret_cast<const ArenaMember*>(memory.data() + sizeof(ArenaHeader));
  for (int part = 0; part < memory.layout().size; ++part) {
    const bool stays =
        std::find(claims.begin(), claims.end(), claim_of(memory, part)) != claims.end();
    if (!stays && !has_ended(members[part], deadline)) return false;
  }
  return true;
}

}  // namespace cohort::transport::shm
