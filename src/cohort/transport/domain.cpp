#include "cohort/transport/domain.h"

#include <cstring>

#include "cohort/transport/host.h"

namespace cohort::transport {

namespace {
// About 50 us: longer than a peer with a core of its own is late for a small message, short
// against what sleeping costs when it is later than that.
constexpr int kSpins = 2000;
}  // namespace

struct alignas(64) DomainHeader {
  std::atomic<std::uint32_t> holders;  // members that have not destroyed their Domain
};

SharedRef allocate_shared(Arena& arena, int members, std::size_t bytes) {
  arena.free_retired();
  const std::size_t total = sizeof(DomainHeader) + bytes;
  std::byte* memory = arena.allocate(total);
  std::memset(memory, 0, total);
  reinterpret_cast<DomainHeader*>(memory)->holders.store(static_cast<std::uint32_t>(members));
  return arena.locate(memory, total);
}

Domain::Domain(std::shared_ptr<Arena> arena, std::vector<int> arena_ranks, int index,
               SharedRef shared)
    : arena_(std::move(arena)),
      arena_ranks_(std::move(arena_ranks)),
      index_(index),
      shared_(arena_->resolve(shared) + sizeof(DomainHeader)),
      spins_(usable_cores() >= size() ? kSpins : 0) {}

Domain::~Domain() {
  if (index_ == 0) retire(shared_ - sizeof(DomainHeader));
  header().holders.fetch_sub(1);
}

void Domain::retire(std::byte* memory) const { arena_->retire(memory, header().holders); }

DomainHeader& Domain::header() const {
  return *reinterpret_cast<DomainHeader*>(shared_ - sizeof(DomainHeader));
}

int Domain::dead_member() const {
  if (arena_->deaths() == 0) return -1;
  for (int i = 0; i < size(); ++i)
    if (arena_->member(arena_ranks_[i]).dead.load() != 0) return i;
  return -1;
}

}  // namespace cohort::transport
