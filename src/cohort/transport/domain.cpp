#include "cohort/transport/domain.h"

#include <cstring>

namespace cohort::transport {

namespace {
// Where every member can have a core, spinning for some 100 us finds a peer that is only a little
// late without the cost of sleeping. Where they share cores, a few yields let the peers go first.
constexpr Patience kOwnCore{.yields = 40, .looks = 100};
constexpr Patience kSharedCore{.yields = 8, .looks = 1};

// Cores on which some member may run.
int cores_of(const Arena& arena, const std::vector<int>& arena_ranks) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int rank : arena_ranks) CPU_OR(&all, &all, &arena.member(rank).cores);
  return CPU_COUNT(&all);
}

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
      patience_(cores_of(*arena_, arena_ranks_) >= size() ? kOwnCore : kSharedCore) {}

Domain::~Domain() {
  if (index_ == 0) retire(shared_ - sizeof(DomainHeader));
  header().holders.fetch_sub(1);
}

void Domain::retire(std::byte* memory) const { arena_->retire(memory, header().holders); }

DomainHeader& Domain::header() const {
  return *reinterpret_cast<DomainHeader*>(shared_ - sizeof(DomainHeader));
}

}  // namespace cohort::transport
