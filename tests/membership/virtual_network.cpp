#include "virtual_network.h"

#include <algorithm>
#include <utility>

namespace cohort::membership::simulator {

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

int Random::between(int least, int most) {
  return least + static_cast<int>(next() % static_cast<std::uint64_t>(most - least + 1));
}

Time Random::between(Time least, Time most) {
  return least + Time(static_cast<std::int64_t>(
                     next() % static_cast<std::uint64_t>((most - least).count() + 1)));
}

bool Random::chance(double probability) {
  return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
}

void VirtualClock::at(Time time, std::function<void()> event) {
  events_.push_back({std::max(time, now_), ++orders_, std::move(event)});
  std::push_heap(events_.begin(), events_.end());
}

bool VirtualClock::step(Time end) {
  if (events_.empty() || events_.front().at > end) return false;
  std::pop_heap(events_.begin(), events_.end());
  const Event event = std::move(events_.back());
  events_.pop_back();
  now_ = event.at;
  event.run();
  return true;
}

VirtualNetwork::VirtualNetwork(VirtualClock& clock, Random& random, int nodes, DelayModel delays)
    : clock_(clock),
      random_(random),
      nodes_(nodes),
      delays_(delays),
      links_(static_cast<std::size_t>(nodes * nodes)) {}

bool VirtualNetwork::send(int from, int to, std::function<void()> deliver) {
  Link& link = this->link(from, to);
  Time delay = random_.between(delays_.least, delays_.most);
  if (random_.chance(delays_.spike_chance)) delay = random_.between(delay, delays_.spike);
  Time arrival = clock_.now() + delay;
  if (clock_.now() < link.cut_until) {
    if (link.lossy) return false;
    arrival = std::max(arrival, link.cut_until + delay);
  }
  arrival = link.last_arrival = std::max(arrival, link.last_arrival);
  clock_.at(arrival, [&link, losses = link.losses, deliver = std::move(deliver)] {
    if (losses == link.losses) deliver();
  });
  return true;
}

void VirtualNetwork::cut(int from, int to, Time until, bool lossy) {
  Link& link = this->link(from, to);
  link.cut_until = std::max(link.cut_until, until);
  link.lossy = lossy;
}

void VirtualNetwork::lose_in_flight(int from, int to) { ++link(from, to).losses; }

void VirtualNetwork::mend_all() {
  delays_.spike_chance = 0;
  for (Link& link : links_) link.cut_until = std::min(link.cut_until, clock_.now());
}

}  // namespace cohort::membership::simulator
