#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cohort/launch/ending/task_record.h"
#include "cohort/launch/supervise/restart_policy.h"
#include "cohort/membership/protocol/view.h"

namespace cohort::launch {

// The workers of an elastic job as a state machine: which of them run, which are started again and
// when, and when the job is over. Events and times go in, actions come out; it knows no processes,
// no coordinator and no clock, and does nothing but write log lines.
//
// - The job has a slot for each of MOST workers; the wanted number of them run, as far as the hosts
//   have slots.
// - A worker that used up its restarts, or made a usage error, is excluded; the job goes on while
//   LEAST workers can be had, and fails when not.
// - It succeeds when training is over and the last members have ended with 0.
// - A member that is killed after that is missed when it was the chief, or when another member then
//   fails: what a program does after its training needs them all. The attempt ends, and another may
//   do that part again from the last checkpoint (is_member_missed()).
//
// Confined to one thread.
class WorkerSlots {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    int least = 1;
    int most = 1;
    int wanted = 1;
    int host_slots = 1;  // workers that the hosts have slots for
    int restarts = 0;    // of each worker
    std::chrono::milliseconds grace{0};
  };
  struct Action {
    enum class Kind {
      start,        // `worker`; answer with on_started(), on_no_host() or on_start_failed()
      ask_to_stop,  // `worker`
      kill,         // `worker`
      resize,       // tell the coordinator that `members` are wanted; `text` says why
      succeed,      // the attempt has; nothing comes after it
      fail          // likewise; see failures() and failure()
    };
    Kind kind;
    cluster::TaskId worker;
    int members = 0;
    std::string text;
  };

  WorkerSlots(const Options& options, const std::vector<cluster::TaskId>& workers);

  // Events. Take the actions and look at wake_at() after each of them.

  void start() { fill(); }  // the wanted number
  void on_started(const TaskRecord& worker);
  void on_no_host(const cluster::TaskId& worker);  // none has a slot for it now
  void on_start_failed(const TaskRecord& worker, const std::string& why, bool may_pass, Time now);
  // Its process is dead. True: this was not known, so tell the coordinator.
  bool on_death_seen(const cluster::TaskId& worker);
  void on_exit(const TaskRecord& worker, Time now);

  void on_view(const membership::View& view, Time now);
  void on_training_resumed();  // by the members of the view
  // By the id of a member; nothing happens when that run of it is past.
  void on_evicted(const std::string& member, const std::string& why, Time now);
  void on_dismissed(const std::string& member, Time now);
  void on_training_over(const membership::View& last);
  void on_coordinator_failed(const std::string& why);

  // From now on so many workers; those that were excluded are tried again. Says what happens.
  // Throws InvalidInput that names the limits.
  std::string scale(int workers, Time now);
  // The hosts have slots for so many now; those `without_slot` have lost theirs, and are ended,
  // unless training is over.
  void on_hosts(int slots, const std::vector<cluster::TaskId>& without_slot, Time now);
  void on_time(Time now);  // call at wake_at(), or at any time
  void stop();             // the attempt ends: from here on no action comes

  std::vector<Action> take_actions();
  std::optional<Time> wake_at() const;

  int wanted() const { return options_.wanted; }
  const membership::View& view() const { return view_; }
  bool is_training_over() const { return training_over_; }
  bool is_stopped() const { return stopped_; }
  const std::vector<TaskRecord>& failures() const { return failures_; }
  const std::string& failure() const { return failure_; }  // a sentence; "" while there is none
  // Of a job that failed: because a member that was killed when training was over is missed.
  bool is_member_missed() const { return !killed_after_training_.empty(); }

 private:
  enum class State {
    idle,  // never started, or released
    running,
    leaving,   // dismissed; it ends by itself
    stopping,  // was asked to stop
    resting,   // waits to be started again
    ended,     // with 0
    excluded   // not started again
  };
  struct Slot {
    TaskRecord worker;  // its last run
    State state = State::idle;
    bool was_member = false;         // in this run of its process
    bool is_death_seen = false;      // of this run
    bool waits_for_members = false;  // resting until they train again
    int shortages = 0;               // starts in a row that the system had nothing for
    std::optional<Time> due = {};    // for what on_due() does in this state
  };

  void on_due(Slot& slot, Time now);
  void start(Slot& slot);
  void fill();
  void release(Slot& slot, Time now);
  void ask_to_stop(Slot& slot, Time now);
  void end_surplus(Time now);
  void on_bad_end(Slot& slot, Time now);
  void on_early_end(Slot& slot, Time now);
  void on_end_after_training(Slot& slot, Time now);
  void on_failure_after_training(const TaskRecord& worker, Time now);
  void exclude(Slot& slot);
  void check_whether_over();
  void check_whether_enough(const std::string& why);
  void decide(Action::Kind kind);
  void add(Action::Kind kind, const Slot& slot) {
    actions_.push_back({kind, slot.worker.id, 0, {}});
  }

  int target() const;
  int count(std::initializer_list<State> states) const;
  Slot& slot_of(const cluster::TaskId& worker);
  Slot* slot_of_member(const std::string& member);
  bool is_last_member(const Slot& slot) const;

  Options options_;
  RestartPolicy restart_policy_;
  std::vector<Slot> slots_;
  std::vector<Action> actions_;
  membership::View view_;
  bool training_over_ = false;
  bool stopped_ = false;
  std::optional<Time> surplus_due_;   // a look at how many run too many
  std::optional<Time> decision_due_;  // on the failures after training
  std::vector<TaskRecord> killed_after_training_, failed_after_training_;
  std::vector<TaskRecord> failures_;
  std::string failure_;
};

}  // namespace cohort::launch
