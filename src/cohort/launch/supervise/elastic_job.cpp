#include "cohort/launch/supervise/elastic_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/record/membership_log.h"
#include "cohort/membership/service/coordinator_service.h"

namespace cohort::launch {
namespace {

using membership::MembershipEvent;
using ElasticClock = EventLoop::Clock;

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

}  // namespace

// What belongs to the attempt that runs now.
struct ElasticJob::Attempt {
  Attempt(const std::filesystem::path& log_file, const WorkerSlots::Options& options,
          const std::vector<cluster::TaskId>& workers)
      : log(log_file), slots(options, workers) {}

  MembershipLog log;
  WorkerSlots slots;
  std::optional<ElasticRecord::Change> last_change;
  EventLoop::TimerId timer = 0;                             // at slots.wake_at()
  std::unique_ptr<membership::CoordinatorService> service;  // last: its thread ends first
};

ElasticJob::ElasticJob(JobContext context)
    : context_(std::move(context)), options_(*context_.options.elastic) {}

ElasticJob::~ElasticJob() { drop_attempt(); }

bool ElasticJob::prepare() {
  if (context_.machine.attempt() > 1) context_.options.resume = true;  // from its own checkpoints
  if (context_.options.hosts.empty() && options_.discovery_script.empty()) return true;
  hosts_ = std::make_unique<JobHosts>(
      context_.options, context_.identity.job, context_.environment, context_.loop,
      [this](int slots, const std::vector<cluster::TaskId>& without_slot) {
        on_hosts(slots, without_slot);
      });
  const auto deadline = Deadline::after(options_.timeout);
  const JobMachine& machine = context_.machine;
  while (!hosts_->known() && !machine.is_stop_requested() && !deadline.expired())
    context_.loop.run_once(deadline);
  if (hosts_->known() && !machine.is_stop_requested()) {
    context_.identity.address = hosts_->settle_address();
    return true;
  }
  hosts_.reset();
  if (!machine.is_stop_requested())
    failure_ = fmt::format("the host discovery script '{}' named no hosts within {:g} s",
                           options_.discovery_script.string(),
                           std::chrono::duration<double>(options_.timeout).count());
  return false;
}

void ElasticJob::begin_attempt() {
  const int wanted = wanted_.value_or(options_.first.value_or(options_.most));
  const int host_slots = hosts_ ? hosts_->slots() : options_.most;
  attempt_ = std::make_unique<Attempt>(context_.folder / "membership.jsonl",
                                       WorkerSlots::Options{.least = options_.least,
                                                            .most = options_.most,
                                                            .wanted = wanted,
                                                            .host_slots = host_slots,
                                                            .restarts = options_.task_restarts,
                                                            .grace = context_.options.grace},
                                       context_.tasks.planned());
  const int initial = std::max(options_.least, std::min(wanted, host_slots));
  const std::weak_ptr<int> token = alive_;
  attempt_->service =
      std::make_unique<membership::CoordinatorService>(membership::CoordinatorServiceOptions{
          .store = context_.identity.store,
          .secret = context_.tasks.services().secret(),
          .prefix = membership::mailbox_prefix(context_.identity.job, context_.machine.attempt()),
          .coordinator = {.least = options_.least,
                          .most = options_.most,
                          .initial = initial,
                          .lease = options_.lease,
                          .member_patience = options_.timeout},
          .on_event = [this, token](const MembershipEvent& event) {
            context_.loop.post([this, token, event] {
              if (!token.expired()) on_event(event);
            });
          }});
  if (wanted < options_.most)
    attempt_->service->resize(
        wanted, wanted_ ? fmt::format("scaled to {} in an earlier attempt", wanted)
                        : fmt::format("begins with {}", count(wanted, "worker", "workers")));
}

void ElasticJob::start() {
  attempt_->slots.start();
  carry_out(/*first=*/true);
}

void ElasticJob::before_check() {
  if (!attempt_) return;
  for (const auto& task : context_.tasks.all()) {
    if (!task->alive()) continue;
    if (const auto exit = task->peek_exit()) tell_death(*task, *exit);
  }
}

void ElasticJob::tell_death(const TaskProcess& task, const ExitStatus& exit) {
  // One that may still run on another host is dead when its lease has ended.
  if (task.may_still_run() || !attempt_->slots.on_death_seen(task.id())) return;
  const TaskRecord& record = task.record();
  attempt_->service->lost(to_string(record.id), record.restarts,
                          how_a_process_ended(record.pid, exit));
}

void ElasticJob::on_exit(TaskProcess& task) {
  if (hosts_) hosts_->leave(task.id());
  tell_death(task, *task.record().exit);  // it died after before_check() had looked
  if (context_.machine.was_hung_up(task.record()))
    return context_.machine.fail_at_once({task.record()}, ElasticClock::now());
  look_at_coordinator();
  attempt_->slots.on_exit(task.record(), ElasticClock::now());
  carry_out();
}

void ElasticJob::stop() {
  if (!attempt_) return;
  attempt_->slots.stop();
  context_.loop.cancel(std::exchange(attempt_->timer, 0));
}

void ElasticJob::end_attempt() {
  stop();
  hosts_.reset();
}

void ElasticJob::drop_attempt() {
  if (!attempt_) return;
  stop();
  wanted_ = attempt_->slots.wanted();
  alive_ = std::make_shared<int>();
  attempt_.reset();
}

bool ElasticJob::may_restart() const { return attempt_ && attempt_->slots.is_member_missed(); }

std::string ElasticJob::scale(int workers) {
  if (!attempt_)
    throw InvalidInput(fmt::format("the hosts of job {} are not known yet", context_.identity.job),
                       {.advice = "Try again when its workers run."});
  look_at_coordinator();
  std::string answer = attempt_->slots.scale(workers, ElasticClock::now());
  carry_out();
  context_.changed();
  return answer;
}

void ElasticJob::on_hosts(int slots, const std::vector<cluster::TaskId>& without_slot) {
  if (!attempt_) return;
  look_at_coordinator();
  attempt_->slots.on_hosts(slots, without_slot, ElasticClock::now());
  carry_out();
  context_.changed();
}

void ElasticJob::on_event(const MembershipEvent& event) {
  attempt_->log.write(event);
  WorkerSlots& slots = attempt_->slots;
  if (slots.is_stopped()) return;
  const auto now = ElasticClock::now();
  switch (event.kind) {
    case MembershipEvent::Kind::proposed:
      return;
    case MembershipEvent::Kind::installed:
      on_installed(event.view);
      break;
    case MembershipEvent::Kind::resumed:
      on_resumed(event);
      break;
    case MembershipEvent::Kind::evicted:
      slots.on_evicted(event.member, event.text, now);
      break;
    case MembershipEvent::Kind::dismissed:
      slots.on_dismissed(event.member, now);
      break;
    case MembershipEvent::Kind::refused:
      log::warning("{} cannot take part: {}", event.member, event.text);
      break;
    case MembershipEvent::Kind::waiting:
      log::warning("{}", event.text.empty()
                             ? fmt::format("fewer than {} are there: waiting for more",
                                           count(options_.least, "worker", "workers"))
                             : event.text);
      break;
    case MembershipEvent::Kind::over:
      look_at_coordinator();
      break;
    case MembershipEvent::Kind::failed:
      slots.on_coordinator_failed(event.text);
      break;
  }
  carry_out();
  context_.changed();
}

void ElasticJob::on_installed(const membership::View& installed) {
  const int before = attempt_->slots.view().size();
  membership::View view = installed;
  view.reason = shortened(view.reason);
  attempt_->last_change =
      ElasticRecord::Change{.time = utc_timestamp(), .view = view.number, .reason = view.reason};
  attempt_->slots.on_view(view, ElasticClock::now());
  if (context_.options.quiet) return;
  log::info("view {}: {}{}{}", view.number,
            view.reason.empty() ? "" : fmt::format("{}; ", view.reason),
            count(view.size(), "worker", "workers"),
            view.size() < before ? view.size() == 1 ? " goes on" : " go on" : "");
}

void ElasticJob::on_resumed(const MembershipEvent& event) {
  const double still = std::chrono::duration<double, std::milli>(event.duration).count();
  auto& change = attempt_->last_change;
  if (change && change->view == event.view.number)
    change->cost = {.step = event.step, .stood_still_ms = still, .redone = event.redone};
  if (!context_.options.quiet)
    log::info("view {} trains: stood still {:.0f} ms{}", event.view.number, still,
              event.redone ? fmt::format(", step {} was done again", event.step) : "");
  attempt_->slots.on_training_resumed();
}

void ElasticJob::look_at_coordinator() {
  if (attempt_->slots.is_training_over()) return;
  const auto status = attempt_->service->status();
  if (status.phase == membership::Coordinator::Phase::over)
    attempt_->slots.on_training_over(status.view);
}

void ElasticJob::carry_out(bool first) {
  using Kind = WorkerSlots::Action::Kind;
  WorkerSlots& slots = attempt_->slots;
  // What an action brings about may bring about more.
  for (auto actions = slots.take_actions(); !actions.empty(); actions = slots.take_actions()) {
    for (const auto& action : actions) {
      switch (action.kind) {
        case Kind::start:
          if (!slots.is_stopped()) start(context_.tasks.find(action.worker), first);
          break;
        case Kind::ask_to_stop:
          context_.tasks.find(action.worker).ask_to_stop();
          break;
        case Kind::kill:
          context_.tasks.find(action.worker).signal(SIGKILL);
          break;
        case Kind::resize:
          attempt_->service->resize(action.members, action.text);
          break;
        case Kind::succeed:
          context_.machine.succeed(ElasticClock::now());
          break;
        case Kind::fail:
          failure_ = slots.failure();
          context_.machine.fail_at_once(slots.failures(), ElasticClock::now());
          break;
      }
    }
  }
  context_.loop.cancel(std::exchange(attempt_->timer, 0));
  if (const auto due = slots.wake_at())
    attempt_->timer = context_.loop.call_at(*due, [this] {
      attempt_->timer = 0;
      look_at_coordinator();
      attempt_->slots.on_time(ElasticClock::now());
      carry_out();
      context_.changed();
    });
}

void ElasticJob::start(TaskProcess& task, bool first) {
  try {
    if (start_on_host(task))
      attempt_->slots.on_started(task.record());
    else
      attempt_->slots.on_no_host(task.id());
  } catch (const Error& error) {
    if (first) throw;
    attempt_->slots.on_start_failed(task.record(), error.what(), is_shortage(error),
                                    ElasticClock::now());
  }
}

// False: no host has a slot for it.
bool ElasticJob::start_on_host(TaskProcess& task) {
  if (hosts_) {
    const auto host = hosts_->take(task.id());
    if (!host) return false;
    context_.tasks.place(task, *host);
  }
  try {
    context_.tasks.start(task);
  } catch (...) {
    if (hosts_) hosts_->leave(task.id());
    throw;
  }
  return true;
}

void ElasticJob::describe(JobRecord& record, bool live) const {
  record.failure = failure_;
  if (!attempt_) return;
  const auto status = attempt_->service->status();
  const auto& view = attempt_->slots.view();
  ElasticRecord& elastic =
      record.elastic.emplace(ElasticRecord{.least = options_.least,
                                           .most = options_.most,
                                           .wanted = attempt_->slots.wanted(),
                                           .phase = std::string(to_string(status.phase)),
                                           .view = view.number,
                                           .last_change = attempt_->last_change});
  if (!live) {
    for (const auto& [info, stage] : view.members)
      elastic.members.push_back(
          {.id = info.id(), .task = info.task, .host = info.host, .pid = info.pid});
    return;
  }
  const auto now = ElasticClock::now().time_since_epoch();
  for (const auto& member : status.members)
    elastic.members.push_back(
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
}

std::set<pid_t> ElasticJob::processes() const {
  if (!hosts_ || hosts_->script() <= 0) return {};
  return {hosts_->script()};
}

}  // namespace cohort::launch
