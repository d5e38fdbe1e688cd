#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/record/elastic_record.h"
#include "cohort/launch/record/membership_log.h"
#include "cohort/launch/supervise/respawns.h"
#include "cohort/launch/task/task_process.h"
#include "cohort/membership/service/coordinator_service.h"

namespace cohort::launch {

// What a Supervisor does for an elastic job: hosts the coordinator, tells it of every death at
// once, starts workers that died again alone, starts and lets go workers when the wanted number
// changes, and decides when the job is over.
//
// - The job has a place for each of MOST workers; the wanted number of them run.
// - Whoever used up its restarts, or made a usage error, is out; the job goes on while LEAST
//   workers can be had, and fails when not.
// - It succeeds when training is over and the last members have ended with 0.
// - A member that is killed after that is missed when it was the chief, or when another member then
//   fails: what a program does after its training needs them all. The attempt ends, and another may
//   do that part again from the last checkpoint (missed()).
//
// Confined to the supervisor's thread; the coordinator has its own and speaks through the loop.
class ElasticJob {
 public:
  struct Setup {
    ElasticOptions options;
    std::chrono::milliseconds grace{0};
    bool quiet = false;
    std::string job;
    int attempt = 1;
    cluster::Address store;
    Secret secret;
    std::filesystem::path log;  // membership.jsonl
    int room = 0;               // workers that the hosts have slots for
    int wanted = 0;             // of LEAST to MOST
  };
  // Called on the supervisor's thread.
  struct Hooks {
    // For the first time or again; false: no host has a slot for it now. Throws Error.
    std::function<bool(TaskProcess&)> start;
    std::function<void()> changed;              // record() is another
    std::function<void(bool success)> decided;  // once; see failures() and failure()
  };

  // `tasks` are the places, none started; they and `loop` must outlive this object. Throws what
  // connecting to the store throws.
  ElasticJob(Setup setup, std::vector<std::unique_ptr<TaskProcess>>& tasks, EventLoop& loop,
             Hooks hooks);
  ~ElasticJob();
  ElasticJob(const ElasticJob&) = delete;
  ElasticJob& operator=(const ElasticJob&) = delete;

  void start();  // the wanted number; throws what starting throws
  // Looks for processes that have ended and tells the coordinator, before anything slow is done.
  void tell_deaths();
  void on_exit(TaskProcess& task);
  void stop();  // the job ends: from here on nothing is started or decided

  // From now on so many workers; those that were out are tried again. Says what happens. Throws
  // InvalidInput that names the limits.
  std::string scale(int workers);

  int wanted() const { return wanted_; }

  // The hosts have slots for so many now; `homeless` workers have lost theirs, and are ended,
  // unless training is over.
  void set_room(int room, const std::vector<cluster::TaskId>& homeless);

  const std::vector<TaskRecord>& failures() const { return failures_; }  // of those that are out
  // Of a job that failed: because somebody who was killed when training was over is missed.
  bool missed() const { return !killed_after_training_.empty(); }
  const std::string& failure() const { return failure_; }  // a sentence; "" while there is none

  ElasticRecord record() const;
  ElasticRecord live_record() const;  // with what the members' beats tell

 private:
  // A process that starts takes cores from the members that lost it: they train again first.
  static constexpr std::chrono::milliseconds kHeadStart{1000};

  enum class State {
    idle,  // never started, or let go
    running,
    leaving,  // dismissed; it ends by itself
    resting,  // waits to be started again
    ended,    // with 0
    out       // not started again
  };
  struct Place {
    TaskProcess* process = nullptr;
    State state = State::idle;
    bool was_member = false;  // in this run of its process
    int shortages = 0;        // starts in a row that the system had nothing for
    bool told = false;        // the coordinator knows that this run has ended
    bool yields = false;      // resting until the others train again, or for kHeadStart
    EventLoop::TimerId timer = 0;
  };

  void on_event(const membership::MembershipEvent& event);
  void on_installed(const membership::MembershipEvent& event);
  void on_resumed(const membership::MembershipEvent& event);
  void on_evicted(Place& place, const std::string& why);
  void let_go(Place& place);
  void look_for_surplus();
  void end(Place& place);

  void tell_death(Place& place, const ExitStatus& exit);
  void fill();
  void start(Place& place);
  void on_death(Place& place);
  void on_early_end(Place& place);
  void on_end_after_training(Place& place);
  void on_failure_after_training(const TaskRecord& record);
  void put_out(Place& place);
  void check_whether_over();
  void check_whether_enough(const std::string& why);
  void decide(bool success);

  int target() const { return std::min(wanted_, room_); }
  bool training_is_over();
  int count(std::initializer_list<State> states) const;
  Place* find(const std::string& member);  // by id; nothing when that run of it is past
  Place& place_of(const TaskProcess& task);
  bool is_last_member(const Place& place) const;
  void set_timer(Place& place, EventLoop::Clock::duration delay, EventLoop::Callback callback);

  Setup setup_;
  EventLoop& loop_;
  Hooks hooks_;
  MembershipLog log_;
  Respawns respawns_;
  std::vector<Place> places_;
  int wanted_;
  int room_;
  membership::View view_;
  std::optional<ElasticRecord::Change> last_change_;
  EventLoop::TimerId surplus_timer_ = 0;
  bool over_ = false;
  bool stopped_ = false;
  std::vector<TaskRecord> killed_after_training_, failed_after_training_;
  EventLoop::TimerId verdict_timer_ = 0;  // of those, one is missed or to blame
  std::vector<TaskRecord> failures_;
  std::string failure_;
  std::shared_ptr<bool> token_;  // events that were posted find it gone with this object
  std::unique_ptr<membership::CoordinatorService> service_;  // last: its thread ends first
};

}  // namespace cohort::launch
