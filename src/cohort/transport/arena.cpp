#include "cohort/transport/arena.h"

#include <unistd.h>

#include "cohort/base/process/process.h"

namespace cohort::transport {

Arena::Arena(int rank, int size, std::byte* table)
    : rank_(rank),
      size_(size),
      header_(reinterpret_cast<ArenaHeader*>(table)),
      members_(reinterpret_cast<ArenaMember*>(table + sizeof(ArenaHeader))) {}

void Arena::introduce() {
  ArenaMember& self = members_[rank_];
  self.pid = ::getpid();
  self.start_time = process_start_time(self.pid);
  CPU_ZERO(&self.cores);
  ::sched_getaffinity(0, sizeof self.cores, &self.cores);
  self.joined.store(1);
  for (int i = 0; i < size_; ++i) members_[i].bell.ring();
}

void Arena::mark_dead(int rank) {
  if (members_[rank].dead.exchange(1) != 0) return;
  header_->deaths.fetch_add(1);
  for (int i = 0; i < size_; ++i) members_[i].bell.ring();
}

void Arena::retire(std::byte* memory, const std::atomic<std::uint32_t>& holders) {
  std::lock_guard lock(retired_mutex_);
  retired_.emplace_back(memory, &holders);
}

void Arena::free_retired() {
  std::lock_guard lock(retired_mutex_);
  std::erase_if(retired_, [this](const auto& entry) {
    if (entry.second->load() != 0) return false;
    free(entry.first);
    return true;
  });
}

}  // namespace cohort::transport
