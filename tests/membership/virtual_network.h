#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "cohort/membership/protocol/coordinator.h"

namespace cohort::membership::simulator {

// Random numbers of one schedule (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

  std::uint64_t next();
  // In [least, most].
  int between(int least, int most);
  Time between(Time least, Time most);
  bool chance(double probability);

 private:
  std::uint64_t state_;
};

// Time that passes as fast as events can be carried out, in the order of their time.
class VirtualClock {
 public:
  Time now() const { return now_; }
  void at(Time time, std::function<void()> event);
  void after(Time delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  // Carries out the next event; false when none is left before `end`.
  bool step(Time end);

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  Time now_{0};
  std::uint64_t orders_ = 0;
  std::vector<Event> events_;  // a heap
};

struct DelayModel {
  Time least = std::chrono::microseconds(50);
  Time most = std::chrono::milliseconds(3);
  double spike_chance = 0;  // of a message that takes up to `spike`
  Time spike = std::chrono::milliseconds(200);
};

// Between each two nodes messages keep their order, as over a connection; between different pairs
// they overtake each other. A link can be cut: what is sent then comes when it is mended, or never.
class VirtualNetwork {
 public:
  VirtualNetwork(VirtualClock& clock, Random& random, int nodes, DelayModel delays);

  // `deliver` runs when the message comes. False: it never will.
  bool send(int from, int to, std::function<void()> deliver);
  void cut(int from, int to, Time until, bool lossy);
  // What is on its way never comes.
  void lose_in_flight(int from, int to);
  void mend_all();  // no cuts and no spikes any more

 private:
  struct Link {
    Time last_arrival{0};
    Time cut_until{0};
    bool lossy = false;
    std::uint64_t losses = 0;
  };
  Link& link(int from, int to) { return links_[static_cast<std::size_t>(from * nodes_ + to)]; }

  VirtualClock& clock_;
  Random& random_;
  int nodes_;
  DelayModel delays_;
  std::vector<Link> links_;
};

}  // namespace cohort::membership::simulator
