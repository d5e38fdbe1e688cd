#include "cohort/launch/supervise/elastic_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/ending/root_cause.h"

namespace cohort::launch {
namespace {

using membership::MembershipEvent;
using std::chrono::milliseconds;

// A worker that was shut out comes again by itself; one that does not is stuck.
constexpr std::chrono::seconds kReturnTime{30};
// A worker may end before the event that says why has come through.
constexpr milliseconds kNewsTime{500};

std::string workers(int number) {
  return fmt::format("{} {}", number, number == 1 ? "worker" : "workers");
}

std::string name_and_pid(const TaskRecord& record) {
  return fmt::format("{} (pid {})", to_string(record.id), record.pid);
}

std::string how_a_process_ended(pid_t pid, const ExitStatus& exit) {
  return fmt::format("pid {} {} {}", pid, exit.signal ? "was killed by" : "ended with",
                     to_string(exit));
}

// A killed worker's connection ends before the kernel says how the worker did: the cause is enough.
std::string shortened(const std::string& reasons) {
  const auto all = split(reasons, ';');
  std::vector<std::string> kept;
  for (const auto& raw : all) {
    const std::string reason(trim(raw));
    const std::string task = reason.substr(0, reason.find(':') + 1);
    const bool is_echo = reason.ends_with(": its connection ended") &&
                         std::count_if(all.begin(), all.end(), [&](const std::string& other) {
                           return trim(other).starts_with(task);
                         }) > 1;
    if (!is_echo) kept.push_back(reason);
  }
  return join(kept, "; ");
}

membership::CoordinatorOptions coordinator_options(const ElasticOptions& options, int wanted) {
  return {.least = options.least,
          .most = options.most,
          .initial = wanted,
          .lease = options.lease,
          .member_patience = options.timeout};
}

}  // namespace

ElasticJob::ElasticJob(Setup setup, std::vector<std::unique_ptr<TaskProcess>>& tasks,
                       EventLoop& loop, Hooks hooks)
    : setup_(std::move(setup)),
      loop_(loop),
      hooks_(std::move(hooks)),
      log_(setup_.log),
      respawns_(setup_.options.task_restarts),
      wanted_(setup_.wanted),
      room_(setup_.room),
      token_(std::make_shared<bool>(true)) {
  for (auto& task : tasks) places_.push_back({.process = task.get()});
  service_ = std::make_unique<membership::CoordinatorService>(membership::CoordinatorServiceOptions{
      .store = setup_.store,
      .secret = setup_.secret,
      .prefix = membership::mailbox_prefix(setup_.job, setup_.attempt),
      .coordinator = coordinator_options(setup_.options, std::max(setup_.options.least, target())),
      .on_event = [this, token = std::weak_ptr<bool>(token_)](const MembershipEvent& event) {
        loop_.post([this, token, event] {
          if (!token.expired()) on_event(event);
        });
      }});
  if (wanted_ < setup_.options.most)
    service_->resize(wanted_, fmt::format("scaled to {} in an earlier attempt", wanted_));
}

ElasticJob::~ElasticJob() { stop(); }

void ElasticJob::start() {
  for (Place& place : places_) {
    if (count({State::running}) >= target() || !hooks_.start(*place.process)) return;
    place.state = State::running;
  }
}

void ElasticJob::tell_deaths() {
  for (Place& place : places_) {
    if (!place.process->alive()) continue;
    if (const auto exit = place.process->peek_exit()) tell_death(place, *exit);
  }
}

void ElasticJob::tell_death(Place& place, const ExitStatus& exit) {
  if (place.told || place.process->may_still_run()) return;  // then its lease has to end
  const TaskRecord& record = place.process->record();
  place.told = true;
  service_->lost(to_string(record.id), record.restarts, how_a_process_ended(record.pid, exit));
}

void ElasticJob::on_exit(TaskProcess& task) {
  Place& place = place_of(task);
  tell_death(place, *task.record().exit);  // it died after tell_deaths() had looked
  loop_.cancel(std::exchange(place.timer, 0));
  if (stopped_) return;
  if (training_is_over()) {
    on_end_after_training(place);
  } else if (place.state == State::leaving) {
    place.state = State::idle;
    fill();
  } else if (task.record().exit->success()) {
    place.state = State::ended;
    set_timer(place, kNewsTime, [this, &place] { on_early_end(place); });
  } else {
    on_death(place);
  }
}

void ElasticJob::stop() {
  stopped_ = true;
  loop_.cancel(surplus_timer_);
  loop_.cancel(verdict_timer_);
  for (Place& place : places_) loop_.cancel(std::exchange(place.timer, 0));
}

std::string ElasticJob::scale(int number) {
  const auto& [least, most] = std::pair(setup_.options.least, setup_.options.most);
  if (number < least || number > most)
    throw InvalidInput(fmt::format("{} workers are outside of {} to {}, which this job was started "
                                   "with",
                                   number, least, most),
                       {.advice = fmt::format("Give a number from {} to {}.", least, most)});
  if (stopped_ || training_is_over())
    throw InvalidInput("the job is ending", {.advice = "Start another one."});
  if (number == wanted_ && count({State::out}) == 0)
    return fmt::format("{} are wanted already", workers(number));
  const std::string why = fmt::format("scaled from {} to {} by request", wanted_, number);
  log::info("{}", why);
  wanted_ = number;
  service_->resize(number, why);
  for (Place& place : places_) {
    if (place.state != State::out) continue;
    respawns_.forgive(place.process->id());
    place.state = State::idle;
  }
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    if (place->state != State::resting || count({State::running, State::resting}) <= wanted_)
      continue;
    loop_.cancel(std::exchange(place->timer, 0));
    place->state = State::idle;
  }
  fill();
  look_for_surplus();
  hooks_.changed();
  return why;
}

void ElasticJob::on_event(const MembershipEvent& event) {
  log_.write(event);
  if (stopped_) return;
  Place* place = event.member.empty() ? nullptr : find(event.member);
  switch (event.kind) {
    case MembershipEvent::Kind::proposed:
      return;
    case MembershipEvent::Kind::installed:
      on_installed(event);
      break;
    case MembershipEvent::Kind::resumed:
      on_resumed(event);
      break;
    case MembershipEvent::Kind::evicted:
      if (place && place->process->alive()) on_evicted(*place, event.text);
      break;
    case MembershipEvent::Kind::dismissed:
      if (place) let_go(*place);
      break;
    case MembershipEvent::Kind::refused:
      log::warning("{} cannot take part: {}", event.member, event.text);
      break;
    case MembershipEvent::Kind::waiting:
      log::warning("{}", event.text.empty()
                             ? fmt::format("fewer than {} are there: waiting for more",
                                           workers(setup_.options.least))
                             : event.text);
      break;
    case MembershipEvent::Kind::over:
      check_whether_over();
      break;
    case MembershipEvent::Kind::failed:
      failure_ = event.text;
      decide(false);
      return;
  }
  hooks_.changed();
}

void ElasticJob::on_installed(const MembershipEvent& event) {
  const int before = view_.size();
  view_ = event.view;
  view_.reason = shortened(view_.reason);
  last_change_ =
      ElasticRecord::Change{.time = utc_timestamp(), .view = view_.number, .reason = view_.reason};
  for (const auto& member : view_.members) {
    Place* place = find(member.info.id());
    if (!place) continue;
    place->was_member = true;
    if (place->state == State::running) loop_.cancel(std::exchange(place->timer, 0));
  }
  look_for_surplus();
  if (setup_.quiet) return;
  log::info("view {}: {}{}{}", view_.number,
            view_.reason.empty() ? "" : fmt::format("{}; ", view_.reason), workers(view_.size()),
            view_.size() < before ? view_.size() == 1 ? " goes on" : " go on" : "");
}

void ElasticJob::on_resumed(const MembershipEvent& event) {
  const double still = std::chrono::duration<double, std::milli>(event.duration).count();
  if (last_change_ && last_change_->view == event.view.number)
    last_change_->cost = {.step = event.step, .stood_still_ms = still, .redone = event.redone};
  if (!setup_.quiet)
    log::info("view {} trains: stood still {:.0f} ms{}", event.view.number, still,
              event.redone ? fmt::format(", step {} was done again", event.step) : "");
  for (Place& place : places_)
    if (place.yields && place.state == State::resting)
      set_timer(place, {}, [this, &place] { start(place); });
}

void ElasticJob::on_evicted(Place& place, const std::string& why) {
  if (place.told || place.state != State::running) return;
  log::warning("{} was shut out: {}", name_and_pid(place.process->record()), why);
  set_timer(place, kReturnTime, [this, &place] {
    log::warning("{} was shut out and has not come again within {} s: killing it",
                 name_and_pid(place.process->record()), kReturnTime.count());
    place.process->signal(SIGKILL);
  });
}

void ElasticJob::let_go(Place& place) {
  if (place.state == State::ended) {
    loop_.cancel(std::exchange(place.timer, 0));
    place.state = State::idle;
    return;
  }
  if (place.state != State::running) return;
  place.state = State::leaving;
  set_timer(place, setup_.grace, [this, &place] { end(place); });
}

void ElasticJob::end(Place& place) {
  place.process->signal(SIGTERM);
  place.process->signal(SIGCONT);
  set_timer(place, setup_.grace, [&place] { place.process->signal(SIGKILL); });
}

void ElasticJob::set_room(int room, const std::vector<cluster::TaskId>& homeless) {
  if (stopped_ || training_is_over()) return;
  log::info("the hosts have {} now", room == 1 ? "1 slot" : fmt::format("{} slots", room));
  room_ = room;
  for (Place& place : places_) {
    const TaskRecord& record = place.process->record();
    if (place.state != State::running ||
        std::find(homeless.begin(), homeless.end(), record.id) == homeless.end())
      continue;
    log::info("{} on {} has lost its slot: ending it", name_and_pid(record), record.host);
    place.state = State::leaving;
    end(place);
  }
  fill();
  hooks_.changed();
}

// The coordinator dismisses members, and says so a moment after the view without them; whoever
// waits or has not come yet, it does not count.
void ElasticJob::look_for_surplus() {
  loop_.cancel(surplus_timer_);
  surplus_timer_ = loop_.call_after(kNewsTime, [this] {
    for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
      if (view_.size() < wanted_ || count({State::running}) <= wanted_) return;
      if (place->state != State::running || is_last_member(*place)) continue;
      place->state = State::leaving;
      end(*place);
    }
  });
}

void ElasticJob::fill() {
  for (Place& place : places_) {
    if (count({State::running, State::resting, State::ended, State::out}) >= target()) return;
    if (place.state == State::idle) start(place);
  }
}

void ElasticJob::start(Place& place) {
  place.was_member = place.told = place.yields = false;
  try {
    place.state = hooks_.start(*place.process) ? State::running : State::idle;
    place.shortages = 0;
  } catch (const Error& error) {
    const bool again = is_shortage(error) && ++place.shortages < kStartTries;
    if (!again || place.shortages == 1)
      log::warning("{} cannot be started{}: {}", to_string(place.process->id()),
                   again ? " for the moment" : "", error.what());
    if (again) {
      place.state = State::resting;
      set_timer(place, kStartPause, [this, &place] { start(place); });
    } else {
      put_out(place);
    }
  }
  hooks_.changed();
}

void ElasticJob::on_death(Place& place) {
  const TaskRecord& record = place.process->record();
  const std::string end = fmt::format("{} {}", name_and_pid(record), how_it_ended(record));
  place.state = State::idle;
  if (count({State::running, State::resting, State::out}) >= target()) {
    log::info("{}; it is not needed any more", end);
    return;
  }
  const auto decision = respawns_.on_death(record, place.was_member);
  switch (decision.verdict) {
    case Respawns::Verdict::usage_error:
      log::warning("{} before it took part: a usage error, so it is not started again", end);
      return put_out(place);
    case Respawns::Verdict::used_up:
      log::warning(
          "{}; it has been started again {} times already, the most that --max-restarts "
          "allows",
          end, decision.charged);
      return put_out(place);
    case Respawns::Verdict::start_again:
      break;
  }
  log::warning("{}; starting it again{} ({})", end,
               decision.delay.count() == 0
                   ? ""
                   : fmt::format(" in {:.2f} s", static_cast<double>(decision.delay.count()) / 1e3),
               decision.is_preemption ? "preempted, not counted"
                                      : fmt::format("restart {} of {}", decision.charged,
                                                    setup_.options.task_restarts));
  place.state = State::resting;
  const bool may_wait = decision.delay.count() == 0 && view_.size() > setup_.options.least;
  place.yields = may_wait && is_last_member(place);
  set_timer(place, place.yields ? kHeadStart : decision.delay, [this, &place] { start(place); });
}

void ElasticJob::on_early_end(Place& place) {
  if (training_is_over()) return on_end_after_training(place);
  log::warning("{} ended with exit code 0 before the training was over; the job goes on without it",
               name_and_pid(place.process->record()));
  place.state = State::out;
  check_whether_enough(fmt::format("{} ended early", to_string(place.process->record().id)));
}

void ElasticJob::on_end_after_training(Place& place) {
  const TaskRecord& record = place.process->record();
  place.state = State::ended;
  if (!record.exit->success() && is_last_member(place)) on_failure_after_training(record);
  check_whether_over();
}

void ElasticJob::on_failure_after_training(const TaskRecord& record) {
  const bool killed =
      record.exit->signal != 0 || record.exit->was_killed() || is_preemption(*record.exit);
  (killed ? killed_after_training_ : failed_after_training_).push_back(record);
  const bool is_chief = view_.members.front().info.task == to_string(record.id);
  if (killed && !is_chief)
    log::warning("{} {} when the training was over", name_and_pid(record), how_it_ended(record));
  if ((killed && !is_chief) || verdict_timer_) return;
  // Whoever fails for want of another may be seen to end before that one is.
  verdict_timer_ = loop_.call_after(kNewsTime, [this] {
    failures_ = missed() ? killed_after_training_ : failed_after_training_;
    decide(false);
  });
}

void ElasticJob::put_out(Place& place) {
  const TaskRecord& record = place.process->record();
  place.state = State::out;
  if (record.exit) failures_.push_back(record);
  check_whether_enough(fmt::format("{} is not started again", to_string(record.id)));
}

void ElasticJob::check_whether_over() {
  if (!training_is_over() || verdict_timer_) return;
  const bool all = std::all_of(places_.begin(), places_.end(), [this](const Place& place) {
    return !is_last_member(place) || place.state == State::ended;
  });
  if (all) decide(true);
}

void ElasticJob::check_whether_enough(const std::string& why) {
  const int left = count({State::running, State::resting, State::ended});
  if (left >= setup_.options.least) {
    if (view_.number == 0) service_->resize(left, why);  // the first view need not wait for it
    return;
  }
  failure_ = fmt::format("{}, and {} can still run, but the job needs at least {}", why,
                         left == 0 ? "no worker" : "only " + workers(left), setup_.options.least);
  decide(false);
}

void ElasticJob::decide(bool success) {
  if (stopped_) return;
  stop();
  hooks_.decided(success);
}

bool ElasticJob::training_is_over() {
  if (over_) return true;
  auto status = service_->status();
  if (status.phase != membership::Coordinator::Phase::over) return false;
  over_ = true;
  view_ = status.view;
  return true;
}

int ElasticJob::count(std::initializer_list<State> states) const {
  return static_cast<int>(std::count_if(places_.begin(), places_.end(), [&](const Place& place) {
    return std::find(states.begin(), states.end(), place.state) != states.end();
  }));
}

ElasticJob::Place* ElasticJob::find(const std::string& member) {
  for (Place& place : places_) {
    const TaskRecord& record = place.process->record();
    if (member.starts_with(fmt::format("{}.{}.", to_string(record.id), record.restarts)))
      return &place;
  }
  return nullptr;
}

ElasticJob::Place& ElasticJob::place_of(const TaskProcess& task) {
  return *std::find_if(places_.begin(), places_.end(),
                       [&](const Place& place) { return place.process == &task; });
}

bool ElasticJob::is_last_member(const Place& place) const {
  const std::string task = to_string(place.process->id());
  return std::any_of(view_.members.begin(), view_.members.end(),
                     [&](const auto& member) { return member.info.task == task; });
}

void ElasticJob::set_timer(Place& place, EventLoop::Clock::duration delay,
                           EventLoop::Callback callback) {
  loop_.cancel(place.timer);
  place.timer = loop_.call_after(delay, [&place, callback = std::move(callback)] {
    place.timer = 0;
    callback();
  });
}

ElasticRecord ElasticJob::record() const {
  ElasticRecord record{.least = setup_.options.least,
                       .most = setup_.options.most,
                       .wanted = wanted_,
                       .phase = std::string(to_string(service_->status().phase)),
                       .view = view_.number,
                       .last_change = last_change_};
  for (const auto& [info, stage] : view_.members)
    record.members.push_back(
        {.id = info.id(), .task = info.task, .host = info.host, .pid = info.pid});
  return record;
}

ElasticRecord ElasticJob::live_record() const {
  ElasticRecord record = this->record();
  record.members.clear();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  for (const auto& member : service_->status().members)
    record.members.push_back(
        {.id = member.info.id(),
         .task = member.info.task,
         .host = member.info.host,
         .pid = member.info.pid,
         .in_view = member.is_member,
         .progress = ElasticRecord::Member::Progress{
             .stage = member.stage,
             .step = member.step,
             .rate = member.rate,
             .heard_ms_ago =
                 std::chrono::duration<double, std::milli>(now - member.last_heard).count()}});
  return record;
}

}  // namespace cohort::launch
