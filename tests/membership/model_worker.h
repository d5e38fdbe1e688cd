#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checks.h"
#include "cohort/membership/protocol/member.h"

namespace cohort::membership::simulator {

class Simulation;

// A worker process that trains as Trainer does, on top of a real Member. A stage's collective is
// complete at a member when it has the contributions of all members of the view: the others may
// not have them yet, and may never get them. State is a hash: equal training, equal hash.
class ModelWorker {
 public:
  ModelWorker(Simulation& simulation, int node, MemberInfo info);

  void start();
  // An event for this process: now, after its pause, or never when it is dead.
  void post(std::function<void()> event);
  void receive(const Message& message);
  void kill() { alive_ = false; }
  void pause(Time until);
  void hang(Time until);  // the worker's own thread stands still; the member's goes on
  void peer_broke(std::uint64_t view, const std::string& why);

  bool alive() const { return alive_; }
  bool paused() const;
  int node() const { return node_; }
  const Member& member() const { return member_; }
  std::uint64_t working_view() const { return working_; }
  std::string id() const { return member_.info().id(); }

 private:
  struct Contribution {
    std::uint64_t view = 0;
    std::int64_t stage = 0;
    int rank = 0;
    int first_shard = 0;
    std::vector<std::uint64_t> parts;
    std::uint64_t follow = 0;
  };
  struct StateCopy {
    std::int64_t committed = 0;
    std::uint64_t state = 0;
    Record last;
  };

  void react();
  void flush();
  void schedule_tick();
  void later(Time least, Time most, std::function<void()> what);  // unless the view has ended
  void begin_view();
  void fill_in(std::function<void()> then);
  void go_on();
  void start_stage();
  void contribute(std::int64_t stage, bool with_shards);
  void take(const std::shared_ptr<const Contribution>& contribution);
  void take_state(std::uint64_t view, const StateCopy& copy);
  void try_commit();
  void after_commit(std::uint64_t follow);
  void rest(const std::string& why);
  void finish();
  bool is_chief() const { return rank_ == 0; }
  Time lease_end() const;

  Simulation& simulation_;
  int node_;
  Member member_;
  bool alive_ = true;
  Time paused_until_{0};
  Time hung_until_{0};
  std::deque<std::function<void()>> deferred_;
  Time tick_at_{0};

  // What training knows.
  std::int64_t committed_ = kNoState;
  std::uint64_t state_ = 0;
  Record last_;

  // The view it works in.
  std::uint64_t working_ = 0;
  int rank_ = -1;
  std::int64_t first_stage_ = 0;
  bool must_copy_ = false;
  bool at_rest_ = false;
  bool going_to_rest_ = false;
  bool writing_ = false;
  bool finished_ = false;
  bool resumed_ = false;
  std::map<std::int64_t, std::vector<std::shared_ptr<const Contribution>>> contributions_;
  std::vector<std::shared_ptr<const Contribution>> early_;  // of a view that is not known yet
  std::vector<std::pair<std::uint64_t, StateCopy>> early_states_;
  std::uint64_t broken_view_ = 0;

  // What the leases that came are worth, found out apart from Member.
  std::map<std::uint64_t, Time> beats_;
  Time lease_end_{0};
};

}  // namespace cohort::membership::simulator
