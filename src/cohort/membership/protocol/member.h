#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/membership/protocol/coordinator.h"
#include "cohort/membership/protocol/message.h"
#include "cohort/membership/protocol/view.h"

namespace cohort::membership {

// A worker's side of coordinator.h: what it may do now, and what it has to say. No sockets, no
// threads, no clock; agent.h drives it in a process, the simulator in tests.
//
//   ready() -> waiting --install--> training --propose--> (comes to rest) report() --install--> ...
//                                                        evicted -> rejoin() -> waiting
//
// Confined to one thread.
class Member {
 public:
  enum class State { idle, waiting, training, resting, evicted, dismissed, refused, over };

  explicit Member(MemberInfo info);

  // What the worker does.
  void ready(Time now, const std::string& agreement);
  void report(Time now, std::int64_t stage);  // at rest, for the newest proposal and later ones
  void broken(Time now, const std::string& why);
  void progress(std::int64_t stage, std::int64_t step, double rate);
  void resumed(Time now, std::int64_t step, Time stood_still, bool redone);
  void finished(Time now, std::int64_t stage);
  void leave(Time now, const std::string& why);
  void rejoin(Time now);  // from evicted: ready() again, under a new id, without state

  void handle(Time now, const Message& message);
  void tick(Time now);
  std::optional<Time> next_tick() const;
  std::vector<Message> take_messages();  // to the coordinator

  // What it may do.
  State state() const;
  const MemberInfo& info() const;
  const View& view() const;               // the last installed one that it belongs to
  std::uint64_t proposal() const;         // newest known; > view().number: a change is due
  bool must_drop() const;                 // that change is unplanned: what is under way is lost
  bool may_commit(Time now) const;        // in view(): the lease holds, and nothing must be dropped
  std::optional<Time> lease_end() const;  // nothing: it has none
  Time lease() const { return lease_; }   // how long the last one was; 0 before the first
  const std::string& reason() const;      // of the newest proposal, eviction, dismissal or refusal

 private:
  void send(Message message);
  void send_ready();
  void send_report();
  void send_broken();
  void beat(Time now);
  void say_again();
  void take_lease(const Message& message);
  void consider(const Message& proposal);
  void install(const Message& message);
  void end(State state, const std::string& why);
  bool is_at_rest() const;
  bool takes_part() const;

  MemberInfo info_;
  std::string id_;
  std::string agreement_;
  State state_ = State::idle;
  View view_;
  std::uint64_t proposal_ = 0;
  bool drop_ = false;  // one of the proposals since view_ was unplanned
  std::string reason_;
  std::int64_t stage_ = kNoState;
  std::int64_t step_ = 0;
  double rate_ = 0;
  bool finished_ = false;
  std::optional<std::string> broken_;

  Time lease_{0};
  std::optional<Time> lease_end_;
  std::uint64_t beats_ = 0;
  Time next_beat_{0};
  std::deque<std::pair<std::uint64_t, Time>> unanswered_;  // beats, and when they were sent
  std::vector<Message> outbox_;
};

}  // namespace cohort::membership
