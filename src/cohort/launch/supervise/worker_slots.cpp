#include "cohort/launch/supervise/worker_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/task/start_retries.h"

namespace cohort::launch {
namespace {

using std::chrono::milliseconds;

// A worker that was shut out comes again by itself; one that does not is stuck.
constexpr std::chrono::seconds kReturnTime{30};
// A worker may end before the event that says why has come through.
constexpr milliseconds kNewsTime{500};
// A process that loads its libraries takes cores from the members that lost one and redo their step:
// it is started when they train again, or after this time.
constexpr milliseconds kHeadStart{1000};

std::string workers_text(int number) { return count(number, "worker", "workers"); }

std::string name_and_pid(const TaskRecord& record) {
  return fmt::format("{} (pid {})", to_string(record.id), record.pid);
}

}  // namespace

WorkerSlots::WorkerSlots(const Options& options, const std::vector<cluster::TaskId>& workers)
    : options_(options), restart_policy_(RestartPolicy::for_worker(options.restarts)) {
  for (const auto& worker : workers) slots_.push_back({.worker = {.id = worker}});
}

int WorkerSlots::target() const { return std::min(options_.wanted, options_.host_slots); }

void WorkerSlots::fill() {
  for (Slot& slot : slots_) {
    if (count({State::running, State::resting, State::ended, State::excluded}) >= target()) return;
    if (slot.state == State::idle) start(slot);
  }
}

void WorkerSlots::start(Slot& slot) {
  slot.was_member = slot.is_death_seen = slot.waits_for_members = false;
  slot.due.reset();
  slot.state = State::running;
  add(Action::Kind::start, slot);
}

void WorkerSlots::on_started(const TaskRecord& worker) {
  Slot& slot = slot_of(worker.id);
  slot.worker = worker;
  slot.shortages = 0;
}

void WorkerSlots::on_no_host(const cluster::TaskId& worker) {
  Slot& slot = slot_of(worker);
  slot.state = State::idle;
  slot.shortages = 0;
}

void WorkerSlots::on_start_failed(const TaskRecord& worker, const std::string& why, bool may_pass,
                                  Time now) {
  Slot& slot = slot_of(worker.id);
  slot.worker = worker;
  const bool again = may_pass && ++slot.shortages < kStartTries;
  if (!again || slot.shortages == 1)
    log::warning("{} cannot be started{}: {}", to_string(worker.id), again ? " for the moment" : "",
                 why);
  if (!again) return exclude(slot);
  slot.state = State::resting;
  slot.due = now + kStartPause;
}

bool WorkerSlots::on_death_seen(const cluster::TaskId& worker) {
  return !std::exchange(slot_of(worker).is_death_seen, true);
}

void WorkerSlots::on_exit(const TaskRecord& worker, Time now) {
  Slot& slot = slot_of(worker.id);
  slot.worker = worker;
  slot.due.reset();
  if (stopped_) return;
  if (training_over_) {
    on_end_after_training(slot, now);
  } else if (slot.state == State::leaving || slot.state == State::stopping) {
    slot.state = State::idle;
    fill();
  } else if (worker.exit->success()) {
    slot.state = State::ended;
    slot.due = now + kNewsTime;
  } else {
    on_bad_end(slot, now);
  }
}

void WorkerSlots::on_bad_end(Slot& slot, Time now) {
  const std::string end =
      fmt::format("{} {}", name_and_pid(slot.worker), how_it_ended(slot.worker));
  slot.state = State::idle;
  if (count({State::running, State::resting, State::excluded}) >= target()) {
    log::info("{}; it is not needed any more", end);
    return;
  }
  if (is_usage_error(slot.worker, slot.was_member)) {
    log::warning("{} before it took part: a usage error, so it is not started again", end);
    return exclude(slot);
  }
  const auto decision = restart_policy_.on_task_end(slot.worker);
  if (decision.answer != RestartPolicy::Answer::restart) {
    log::warning(
        "{}; it has been started again {} times already, the most that --max-restarts allows", end,
        decision.counted);
    return exclude(slot);
  }
  log::warning("{}; starting it again{} ({})", end,
               decision.delay.count() == 0
                   ? ""
                   : fmt::format(" in {:.2f} s", static_cast<double>(decision.delay.count()) / 1e3),
               decision.is_free
                   ? "preempted, not counted"
                   : fmt::format("restart {} of {}", decision.counted, options_.restarts));
  slot.state = State::resting;
  const bool was_in_view =
      std::any_of(view_.members.begin(), view_.members.end(),
                  [&](const auto& member) { return slot_of_member(member.info.id()) == &slot; });
  slot.waits_for_members =
      was_in_view && view_.size() > options_.least && decision.delay.count() == 0;
  slot.due = now + (slot.waits_for_members ? kHeadStart : decision.delay);
}

void WorkerSlots::on_training_resumed() {
  for (Slot& slot : slots_)
    if (slot.state == State::resting && slot.waits_for_members) start(slot);
}

void WorkerSlots::on_view(const membership::View& view, Time now) {
  view_ = view;
  for (const auto& member : view_.members) {
    Slot* slot = slot_of_member(member.info.id());
    if (!slot) continue;
    slot->was_member = true;
    if (slot->state == State::running) slot->due.reset();
  }
  surplus_due_ = now + kNewsTime;
}

void WorkerSlots::on_evicted(const std::string& member, const std::string& why, Time now) {
  Slot* slot = slot_of_member(member);
  if (!slot || slot->is_death_seen || slot->state != State::running) return;
  log::warning("{} was shut out: {}", name_and_pid(slot->worker), why);
  slot->due = now + kReturnTime;
}

void WorkerSlots::on_dismissed(const std::string& member, Time now) {
  if (Slot* slot = slot_of_member(member)) release(*slot, now);
}

void WorkerSlots::release(Slot& slot, Time now) {
  if (slot.state == State::ended) {
    slot.due.reset();
    slot.state = State::idle;
  } else if (slot.state == State::running) {
    slot.state = State::leaving;
    slot.due = now + options_.grace;
  }
}

void WorkerSlots::ask_to_stop(Slot& slot, Time now) {
  slot.state = State::stopping;
  slot.due = now + options_.grace;
  add(Action::Kind::ask_to_stop, slot);
}

void WorkerSlots::on_training_over(const membership::View& last) {
  training_over_ = true;
  view_ = last;
  check_whether_over();
}

void WorkerSlots::on_coordinator_failed(const std::string& why) {
  failure_ = why;
  decide(Action::Kind::fail);
}

std::string WorkerSlots::scale(int number, Time now) {
  const auto [least, most] = std::pair(options_.least, options_.most);
  if (number < least || number > most)
    throw InvalidInput(fmt::format("{} workers are outside of {} to {}, which this job was started "
                                   "with",
                                   number, least, most),
                       {.advice = fmt::format("Give a number from {} to {}.", least, most)});
  if (stopped_ || training_over_)
    throw InvalidInput("the job is ending", {.advice = "Start another one."});
  if (number == options_.wanted && count({State::excluded}) == 0)
    return fmt::format("{} are wanted already", workers_text(number));
  const std::string why = fmt::format("scaled from {} to {} by request", options_.wanted, number);
  log::info("{}", why);
  options_.wanted = number;
  actions_.push_back({Action::Kind::resize, {}, number, why});
  for (Slot& slot : slots_) {
    if (slot.state != State::excluded) continue;
    restart_policy_.reset_history(slot.worker.id);
    slot.state = State::idle;
  }
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {
    if (slot->state != State::resting || count({State::running, State::resting}) <= number)
      continue;
    slot->due.reset();
    slot->state = State::idle;
  }
  fill();
  surplus_due_ = now + kNewsTime;
  return why;
}

void WorkerSlots::on_hosts(int host_slots, const std::vector<cluster::TaskId>& without_slot,
                           Time now) {
  if (stopped_ || training_over_) return;
  log::info("the hosts have {} now", launch::count(host_slots, "slot", "slots"));
  options_.host_slots = host_slots;
  for (Slot& slot : slots_) {
    if (slot.state != State::running ||
        std::find(without_slot.begin(), without_slot.end(), slot.worker.id) == without_slot.end())
      continue;
    log::info("{} on {} has lost its slot: ending it", name_and_pid(slot.worker), slot.worker.host);
    ask_to_stop(slot, now);
  }
  fill();
}

void WorkerSlots::on_time(Time now) {
  for (Slot& slot : slots_)
    if (slot.due && now >= *slot.due && !stopped_) on_due(slot, now);
  if (surplus_due_ && now >= *surplus_due_ && !stopped_) end_surplus(now);
  if (decision_due_ && now >= *decision_due_ && !stopped_) {
    failures_ = is_member_missed() ? killed_after_training_ : failed_after_training_;
    decide(Action::Kind::fail);
  }
}

void WorkerSlots::on_due(Slot& slot, Time now) {
  slot.due.reset();
  switch (slot.state) {
    case State::running:  // it was evicted
      log::warning("{} was shut out and has not come again within {} s: killing it",
                   name_and_pid(slot.worker), kReturnTime.count());
      return add(Action::Kind::kill, slot);
    case State::leaving:
      return ask_to_stop(slot, now);
    case State::stopping:
      return add(Action::Kind::kill, slot);
    case State::resting:
      return start(slot);
    case State::ended:
      return on_early_end(slot, now);
    case State::idle:
    case State::excluded:
      return;
  }
}

// The coordinator dismisses members, and says so a moment after the view without them; a worker
// that waits or has not come yet, it does not count.
void WorkerSlots::end_surplus(Time now) {
  surplus_due_.reset();
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {
    if (view_.size() < options_.wanted || count({State::running}) <= options_.wanted) return;
    if (slot->state == State::running && !is_last_member(*slot)) ask_to_stop(*slot, now);
  }
}

void WorkerSlots::on_early_end(Slot& slot, Time now) {
  if (training_over_) return on_end_after_training(slot, now);
  log::warning("{} ended with exit code 0 before the training was over; the job goes on without it",
               name_and_pid(slot.worker));
  slot.state = State::excluded;
  check_whether_enough(fmt::format("{} ended early", to_string(slot.worker.id)));
}

void WorkerSlots::on_end_after_training(Slot& slot, Time now) {
  slot.state = State::ended;
  if (!slot.worker.exit->success() && is_last_member(slot))
    on_failure_after_training(slot.worker, now);
  check_whether_over();
}

void WorkerSlots::on_failure_after_training(const TaskRecord& worker, Time now) {
  const bool killed =
      worker.exit->signal != 0 || worker.exit->was_killed() || is_preemption(*worker.exit);
  (killed ? killed_after_training_ : failed_after_training_).push_back(worker);
  const bool is_chief = view_.members.front().info.task == to_string(worker.id);
  if (killed && !is_chief)
    log::warning("{} {} when the training was over", name_and_pid(worker), how_it_ended(worker));
  if ((killed && !is_chief) || decision_due_) return;
  // A worker that fails for want of another may be seen to end before that one is.
  decision_due_ = now + kNewsTime;
}

void WorkerSlots::exclude(Slot& slot) {
  slot.state = State::excluded;
  if (slot.worker.exit) failures_.push_back(slot.worker);
  check_whether_enough(fmt::format("{} is not started again", to_string(slot.worker.id)));
}

void WorkerSlots::check_whether_over() {
  if (!training_over_ || decision_due_) return;
  const bool all = std::all_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
    return !is_last_member(slot) || slot.state == State::ended;
  });
  if (all) decide(Action::Kind::succeed);
}

void WorkerSlots::check_whether_enough(const std::string& why) {
  const int left = count({State::running, State::resting, State::ended});
  if (left >= options_.least) {
    // The first view need not wait for it.
    if (view_.number == 0) actions_.push_back({Action::Kind::resize, {}, left, why});
    return;
  }
  failure_ = fmt::format("{}, and {} can still run, but the job needs at least {}", why,
                         left == 0 ? "no worker" : "only " + workers_text(left), options_.least);
  decide(Action::Kind::fail);
}

void WorkerSlots::decide(Action::Kind kind) {
  if (stopped_) return;
  stop();
  actions_.push_back({kind, {}, 0, {}});
}

void WorkerSlots::stop() {
  stopped_ = true;
  actions_.clear();
  surplus_due_.reset();
  decision_due_.reset();
  for (Slot& slot : slots_) slot.due.reset();
}

std::vector<WorkerSlots::Action> WorkerSlots::take_actions() { return std::exchange(actions_, {}); }

std::optional<WorkerSlots::Time> WorkerSlots::wake_at() const {
  std::optional<Time> first;
  auto consider = [&first](const std::optional<Time>& due) {
    if (due && (!first || *due < *first)) first = due;
  };
  for (const Slot& slot : slots_) consider(slot.due);
  consider(surplus_due_);
  consider(decision_due_);
  return first;
}

int WorkerSlots::count(std::initializer_list<State> states) const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return std::find(states.begin(), states.end(), slot.state) != states.end();
  }));
}

WorkerSlots::Slot& WorkerSlots::slot_of(const cluster::TaskId& worker) {
  return *std::find_if(slots_.begin(), slots_.end(),
                       [&](const Slot& slot) { return slot.worker.id == worker; });
}

WorkerSlots::Slot* WorkerSlots::slot_of_member(const std::string& member) {
  for (Slot& slot : slots_)
    if (member.starts_with(fmt::format("{}.{}.", to_string(slot.worker.id), slot.worker.restarts)))
      return &slot;
  return nullptr;
}

bool WorkerSlots::is_last_member(const Slot& slot) const {
  const std::string task = to_string(slot.worker.id);
  return std::any_of(view_.members.begin(), view_.members.end(),
                     [&](const auto& member) { return member.info.task == task; });
}

}  // namespace cohort::launch
