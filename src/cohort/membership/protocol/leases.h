#pragma once

#include <chrono>
#include <list>
#include <optional>

namespace cohort::membership {

// Time since any one instant. Whoever drives the state machines tells it: a clock, or a simulator.
using Time = std::chrono::nanoseconds;

// When the leases end that a coordinator gave. All are equally long, so the one given first ends
// first: a list in that order, and every operation takes constant time. Confined to one thread.
class Leases {
 public:
  struct Lease {
    Time end;
    void* holder;
  };
  using Place = std::list<Lease>::iterator;

  Place give(Time end, void* holder) { return leases_.insert(leases_.end(), {end, holder}); }
  // `end` must not be before that of any other lease.
  void renew(Place place, Time end) {
    place->end = end;
    leases_.splice(leases_.end(), leases_, place);
  }
  void remove(Place place) { leases_.erase(place); }

  const Lease* first() const { return leases_.empty() ? nullptr : &leases_.front(); }

 private:
  std::list<Lease> leases_;
};

}  // namespace cohort::membership
