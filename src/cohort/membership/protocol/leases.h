#pragma once

#include <chrono>
#include <list>
#include <optional>

namespace cohort::membership {

// Time since any one instant. The driver of the state machines tells it: a clock, or a simulator.
using Time = std::chrono::nanoseconds;

// When the leases end that a coordinator gave. All are equally long, so the one given first ends
// first: a list in that order, and every operation takes constant time. Confined to one thread.
class Leases {
 public:
  struct Lease {
    Time end;
    void* holder;
  };
  using Handle = std::list<Lease>::iterator;

  Handle give(Time end, void* holder) { return leases_.insert(leases_.end(), {end, holder}); }
  // `end` must not be before that of any other lease.
  void renew(Handle lease, Time end) {
    lease->end = end;
    leases_.splice(leases_.end(), leases_, lease);
  }
  void remove(Handle lease) { leases_.erase(lease); }

  const Lease* first() const { return leases_.empty() ? nullptr : &leases_.front(); }
  const std::list<Lease>& all() const { return leases_; }

 private:
  std::list<Lease> leases_;
};

}  // namespace cohort::membership
