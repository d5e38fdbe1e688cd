#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/transport/arena.h"

namespace cohort::transport {

struct DomainHeader;

// The ranks of one group that sit on one host: some or all ranks of an arena, with a piece of
// zero-filled shared memory of their own (`shared()`), whose layout is the user's.
// A member is known by its index here, 0..size()-1, in ascending rank order of the group.
//
// Threads: thread-safe. Ownership: keeps its arena alive; the shared memory lives in the arena,
// allocated by member 0, and is used again only after every member's Domain is destroyed.
class Domain {
 public:
  // `arena_ranks[i]` is member i's rank in the arena; `shared` is allocate_shared()'s result.
  Domain(std::shared_ptr<Arena> arena, std::vector<int> arena_ranks, int index, SharedRef shared);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  int index() const { return index_; }
  int size() const { return static_cast<int>(arena_ranks_.size()); }
  Arena& arena() const { return *arena_; }
  std::byte* shared() const { return shared_; }

  // Frees memory of this rank's that members may still look at, after all their Domains are gone.
  void retire(std::byte* memory) const;

  // A process of the arena has ended; that of this member.
  bool any_deaths() const { return arena_->deaths() != 0; }
  bool is_dead(int member) const { return arena_->member(arena_ranks_[member]).dead.load() != 0; }

  // Waits until `ready()`, which reads shared state with seq_cst loads. False: deadline passed.
  // The member that changes that state calls notify() or notify_all() after the store.
  template <typename Ready>
  bool wait(Ready&& ready, Deadline deadline) {
    return own_bell().wait(std::forward<Ready>(ready), patience_, deadline);
  }
  void notify(int member) const { arena_->member(arena_ranks_[member]).bell.ring(); }
  void notify_all() const {
    for (int i = 0; i < size(); ++i) notify(i);
  }

 private:
  DomainHeader& header() const;
  Doorbell& own_bell() const { return arena_->member(arena_ranks_[index_]).bell; }

  std::shared_ptr<Arena> arena_;
  std::vector<int> arena_ranks_;
  int index_;
  std::byte* shared_;
  Patience patience_;
};

// Called by member 0: `bytes` of zeros for a domain of `members`, to be handed to each of them.
SharedRef allocate_shared(Arena& arena, int members, std::size_t bytes);

}  // namespace cohort::transport
