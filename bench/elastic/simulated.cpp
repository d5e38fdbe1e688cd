// How long does a change of view take after a death, and what does it cost the coordinator, up to
// 10,000 members? SIMULATED: the real Coordinator, real Members for the first of them and stand-ins
// that say the same for the rest (a view of 10,000 in each of 10,000 objects does not fit into
// memory), a virtual clock, and a network with a stated delay. The coordinator's CPU time is real:
// its decisions, and encoding and decoding everything that it sends and gets; the store's is not in
// it.
#include <fmt/format.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "bench/targets.h"
#include "cohort/base/error.h"
#include "cohort/membership/protocol/member.h"
#include "virtual_network.h"

namespace {

using namespace cohort::membership;
using cohort::membership::simulator::Random;
using cohort::membership::simulator::VirtualClock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRealMembers = 100;
constexpr Time kLeastDelay = microseconds(50);
constexpr Time kMostDelay = microseconds(150);
constexpr Time kLease = seconds(2);

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Cost {
  double cpu_s = 0;
  std::uint64_t messages_in = 0, messages_out = 0, bytes_in = 0, bytes_out = 0;
};

// One of the members: a real one, or a stand-in.
struct SimulatedMember {
  std::string id;
  std::unique_ptr<Member> real;  // nullptr: a stand-in
  std::uint64_t view = 0;
  std::uint64_t beats = 0;
  bool dead = false;
  Time last_to{0}, last_from{0};  // messages of one member keep their order
  Time tick_at{-1};
};

class ManyMembers {
 public:
  explicit ManyMembers(int members) : random_(1), coordinator_(options(members)) {
    for (int i = 0; i < members; ++i) {
      MemberInfo info{fmt::format("worker/{}", i), 0, 0, fmt::format("host-{}", i / 8), 1000 + i};
      SimulatedMember member;
      member.id = info.id();
      if (i < kRealMembers) member.real = std::make_unique<Member>(info);
      infos_.push_back(std::move(info));
      members_.push_back(std::move(member));
    }
  }

  void start() {
    for (std::size_t i = 0; i < members_.size(); ++i)
      clock_.at(random_.between(Time(0), Time(milliseconds(400))), [this, i] { ready(i); });
    run_until_installed(1);
  }

  void idle(Time time) {
    const Time end = clock_.now() + time;
    while (clock_.step(end)) {
    }
  }

  // Until all that live have the new view; the virtual time it took.
  Time lose(std::size_t victim) {
    const Time start = clock_.now();
    members_[victim].dead = true;
    charge([&] {
      coordinator_.lost(clock_.now(), infos_[victim].task, 0, "was killed by signal 9 (SIGKILL)");
    });
    run_until_installed(coordinator_.view().number + 1);
    return clock_.now() - start;
  }

  Cost take_cost() { return std::exchange(cost_, {}); }

 private:
  static CoordinatorOptions options(int members) {
    CoordinatorOptions options;
    options.most = options.initial = members;
    options.lease = kLease;
    return options;
  }

  void ready(std::size_t i) {
    SimulatedMember& member = members_[i];
    if (member.real) {
      member.real->ready(clock_.now(), "{}");
      return flush(i);
    }
    send(i, {.kind = MessageKind::ready, .member = member.id, .text = "{}", .info = infos_[i]});
    beat(i);
  }

  void beat(std::size_t i) {
    SimulatedMember& member = members_[i];
    if (member.dead) return;
    if (member.real) {
      member.real->tick(clock_.now());
      return flush(i);
    }
    send(i,
         {.kind = MessageKind::beat, .member = member.id, .number = ++member.beats, .stage = 100});
    clock_.after(kLease / 4, [this, i] { beat(i); });
  }

  void flush(std::size_t i) {
    SimulatedMember& member = members_[i];
    for (const Message& message : member.real->take_messages()) send(i, message);
    const auto next = member.real->next_tick();
    if (!next || member.tick_at > clock_.now()) return;
    member.tick_at = *next;
    clock_.at(*next, [this, i] { beat(i); });
  }

  void send(std::size_t i, const Message& message) {
    SimulatedMember& member = members_[i];
    member.last_from =
        std::max(member.last_from, clock_.now() + random_.between(kLeastDelay, kMostDelay));
    clock_.at(member.last_from, [this, bytes = encode(message)] {
      ++cost_.messages_in;
      cost_.bytes_in += bytes.size();
      charge([&] { coordinator_.handle(clock_.now(), decode_message(bytes)); });
    });
  }

  // Runs the coordinator, and encodes what it says, on its account. Equal views are encoded once:
  // 10,000 copies of the first one are 5 GB.
  template <typename Work>
  void charge(Work work) {
    const double before = cpu_seconds();
    work();
    auto outgoing = coordinator_.take_messages();
    std::vector<std::size_t> sizes;
    sizes.reserve(outgoing.size());
    const ViewChange* last_change = nullptr;
    std::size_t last_size = 0;
    for (const auto& [member, message] : outgoing) {
      const bool known = message.change && message.change.get() == last_change;
      const bool large = message.change && message.change->added.size() > 100;
      if (!known || !large) last_size = encode(message).size();
      last_change = message.change.get();
      sizes.push_back(last_size);
    }
    coordinator_.take_events();
    cost_.cpu_s += cpu_seconds() - before;
    for (std::size_t k = 0; k < outgoing.size(); ++k) {
      ++cost_.messages_out;
      cost_.bytes_out += sizes[k];
      deliver(std::move(outgoing[k]));
    }
  }

  void deliver(Coordinator::Outgoing outgoing) {
    const auto i =
        static_cast<std::size_t>(std::stoi(outgoing.member.substr(outgoing.member.find('/') + 1)));
    SimulatedMember& member = members_[i];
    member.last_to =
        std::max(member.last_to, clock_.now() + random_.between(kLeastDelay, kMostDelay));
    clock_.at(member.last_to,
              [this, i, message = std::move(outgoing.message)] { get(i, message); });
  }

  void get(std::size_t i, const Message& message) {
    SimulatedMember& member = members_[i];
    if (member.dead) return;
    if (member.real) {
      member.real->handle(clock_.now(), message);
      if (message.kind == MessageKind::propose) member.real->report(clock_.now(), 100);
      if (message.kind == MessageKind::install && member.real->view().number == message.number)
        arrive(member, message.number);
      return flush(i);
    }
    if (message.kind == MessageKind::propose)
      send(i, {.kind = MessageKind::report,
               .member = member.id,
               .number = message.number,
               .base = member.view,
               .stage = member.view == 0 ? kNoState : 100});
    if (message.kind == MessageKind::install) arrive(member, message.number);
  }

  void arrive(SimulatedMember& member, std::uint64_t view) {
    if (member.view == view) return;
    member.view = view;
    ++arrived_;
  }

  void run_until_installed(std::uint64_t view) {
    arrived_ = 0;
    const Time end = clock_.now() + seconds(60);
    while ((coordinator_.view().number < view ||
            arrived_ < static_cast<std::size_t>(coordinator_.view().size())) &&
           clock_.step(end)) {
    }
    if (arrived_ < static_cast<std::size_t>(coordinator_.view().size()))
      throw cohort::InvalidInput(fmt::format("view {} reached {} of {} members", view, arrived_,
                                             coordinator_.view().size()));
  }

  Random random_;
  VirtualClock clock_;
  Coordinator coordinator_;
  std::vector<MemberInfo> infos_;
  std::vector<SimulatedMember> members_;
  std::size_t arrived_ = 0;
  Cost cost_;
};

}  // namespace

int main() {
  cohort::bench::Targets targets("elastic_simulated");
  fmt::print("simulated: network delay {} to {} us each way, lease {} s, a beat each {} ms\n",
             kLeastDelay / microseconds(1), kMostDelay / microseconds(1), kLease / seconds(1),
             kLease / 4 / milliseconds(1));
  fmt::print("{:>8} {:>14} {:>14} {:>10} {:>10} {:>12} {:>14}\n", "members", "change [ms]",
             "its CPU [ms]", "messages", "KB", "beats CPU", "first view CPU");
  for (const int members : {10, 100, 1000, 10'000}) {
    ManyMembers simulated(members);
    simulated.start();
    const Cost first = simulated.take_cost();
    simulated.idle(seconds(1));
    const Cost beats = simulated.take_cost();
    const Time change = simulated.lose(static_cast<std::size_t>(members) / 2);
    const Cost cost = simulated.take_cost();
    const double change_ms = static_cast<double>(change.count()) / 1e6;
    fmt::print("{:>8} {:>14.2f} {:>14.2f} {:>10} {:>10} {:>11.2f}% {:>11.1f} ms\n", members,
               change_ms, cost.cpu_s * 1e3, cost.messages_in + cost.messages_out,
               (cost.bytes_in + cost.bytes_out) / 1000, beats.cpu_s * 100, first.cpu_s * 1e3);
    const std::string name = fmt::format("simulated_{}_members_", members);
    targets.record(name + "change_network_ms", change_ms);
    targets.record(name + "change_cpu_ms", cost.cpu_s * 1e3);
    targets.record(name + "messages_in", static_cast<double>(cost.messages_in));
    targets.record(name + "messages_out", static_cast<double>(cost.messages_out));
    targets.record(name + "bytes_in", static_cast<double>(cost.bytes_in));
    targets.record(name + "bytes_out", static_cast<double>(cost.bytes_out));
    targets.record(name + "beats_cpu_percent", beats.cpu_s * 100);
    targets.record(name + "first_view_cpu_ms", first.cpu_s * 1e3);
    if (members == 10'000)
      targets.expect(name + "change_network_and_cpu_s", change_ms / 1e3 + cost.cpu_s, "<", 1.0);
  }
  targets.finish();
}
