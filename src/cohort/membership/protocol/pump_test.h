#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cohort/membership/protocol/coordinator.h"
#include "cohort/membership/protocol/member.h"

namespace cohort::membership {

// A coordinator and members at one table: pump() carries every message at once, until none has
// anything more to say. Time stands still but for pass().
class Pump {
 public:
  using Kind = MembershipEvent::Kind;

  explicit Pump(CoordinatorOptions options) : coordinator(options) {}

  Member& add(int task, int incarnation = 0, const std::string& agreement = "{}") {
    const MemberInfo info{"worker/" + std::to_string(task), incarnation, 0, "host", 100 + task};
    auto& member = members[task] = std::make_unique<Member>(info);
    member->ready(now, agreement);
    pump();
    return *member;
  }
  Member& at(int task) { return *members.at(task); }

  // No member hears of it by itself.
  void kill(int task) { members.erase(task); }
  void kill_and_tell(int task) {
    const MemberInfo info = at(task).info();
    kill(task);
    coordinator.lost(now, info.task, info.incarnation, "was killed by signal 9 (SIGKILL)");
    pump();
  }
  void report(int task, std::int64_t stage) {
    at(task).report(now, stage);
    pump();
  }
  void finish(int task, std::int64_t stage) {
    at(task).finished(now, stage);
    pump();
  }

  void pump() {
    for (bool again = true; again;) {
      again = false;
      for (auto& [task, member] : members) {
        for (const Message& message : member->take_messages()) {
          again = true;
          coordinator.handle(now, message);
        }
      }
      for (auto& outgoing : coordinator.take_messages()) {
        for (auto& [task, member] : members) {
          if (member->info().id() != outgoing.member || deaf.contains(task)) continue;
          again = true;
          member->handle(now, outgoing.message);
        }
        sent.push_back(std::move(outgoing));
      }
      for (auto& event : coordinator.take_events()) events.push_back(std::move(event));
    }
  }

  // Lets time pass: beats, leases, patience.
  void pass(Time time) {
    const Time end = now + time;
    while (now < end) {
      Time next = end;
      if (const auto tick = coordinator.next_tick()) next = std::min(next, *tick);
      for (auto& [task, member] : members)
        if (const auto tick = member->next_tick(); tick && !deaf.contains(task))
          next = std::min(next, *tick);
      now = std::max(now, next);
      for (auto& [task, member] : members)
        if (!deaf.contains(task)) member->tick(now);
      pump();
      coordinator.tick(now);
      pump();
      if (next == now && next != end) now += Time(1);
    }
  }

  std::vector<std::string> view() const {
    std::vector<std::string> ids;
    for (const ViewMember& member : coordinator.view().members) ids.push_back(member.info.id());
    return ids;
  }
  int count(Kind kind) const {
    int count = 0;
    for (const MembershipEvent& event : events) count += event.kind == kind;
    return count;
  }
  const MembershipEvent* last(Kind kind) const {
    for (auto event = events.rbegin(); event != events.rend(); ++event)
      if (event->kind == kind) return &*event;
    return nullptr;
  }

  Time now{1'000'000'000};
  Coordinator coordinator;
  std::map<int, std::unique_ptr<Member>> members;
  std::set<int> deaf;  // gets nothing, and does not beat
  std::vector<Coordinator::Outgoing> sent;
  std::vector<MembershipEvent> events;
};

}  // namespace cohort::membership
