#include "cohort/transport/arena.h"

namespace cohort::transport {

Arena::Arena(int rank, int size, std::byte* table)
    : rank_(rank),
      size_(size),
      header_(reinterpret_cast<ArenaHeader*>(table)),
      members_(reinterpret_cast<ArenaMember*>(table + sizeof(ArenaHeader))) {}

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
