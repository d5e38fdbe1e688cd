#include "cohort/launch/supervise/fixed_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/task/start_retries.h"

namespace cohort::launch {
namespace {

using std::chrono::milliseconds;

// How long after the first task's end, and then ever more rarely, the awaited ones are named.
constexpr milliseconds kFirstReminder{2000};
constexpr milliseconds kLastReminder{60'000};

}  // namespace

FixedJob::FixedJob(JobContext context) : context_(std::move(context)) {}

void FixedJob::begin_attempt() {
  outcome_.emplace(context_.tasks.planned(), context_.options.success_policy());
  restarts_.emplace(RestartPolicy::for_task(context_.options.task_restarts));
}

void FixedJob::start() {
  for (const auto& task : context_.tasks.all()) {
    if (!context_.look_around()) return;
    context_.tasks.start(*task);
  }
}

void FixedJob::on_exit(TaskProcess& task) {
  if (!start_again(task)) judge(task);
}

bool FixedJob::start_again(TaskProcess& task) {
  const TaskRecord& record = task.record();
  // A job that is failing stops soon; a hangup means all of it.
  if (context_.machine.phase() != JobMachine::Phase::running ||
      context_.machine.was_hung_up(record) ||
      !may_restart_alone(record, task.restart_flag(), context_.options.ps > 0))
    return false;
  const std::string end =
      fmt::format("{} (pid {}) {}", to_string(task.id()), record.pid, how_it_ended(record));
  switch (restarts_->on_task_end(record).answer) {
    case RestartPolicy::Answer::limit_reached:
      log::warning("{}; it has been started again alone {} already", end,
                   count(record.restarts, "time", "times"));
      return false;
    case RestartPolicy::Answer::crash_loop:
      log::warning(
          "{}; that is {} times in a row within {} s of its start: it is not started again", end,
          restarts_->rules().longest_row, restarts_->rules().quick.count() / 1000);
      return false;
    case RestartPolicy::Answer::restart:
      break;
  }
  log::warning("{}; starting it again alone (restart {})", end, record.restarts + 1);
  return start_now_or_later(task, 0);
}

bool FixedJob::start_now_or_later(TaskProcess& task, int tries) {
  try {
    context_.tasks.start(task);
    return true;
  } catch (const Error& error) {
    const bool later = is_shortage(error) && tries < kStartTries;
    if (!later || tries == 0)
      log::warning("{} cannot be started again{}: {}", to_string(task.id()),
                   later ? " for the moment" : "", error.what());
    if (!later) return false;
  }
  later_starts_[task.id()] = context_.loop.call_after(kStartPause, [this, &task, tries] {
    later_starts_.erase(task.id());
    if (context_.machine.phase() == JobMachine::Phase::running &&
        !start_now_or_later(task, tries + 1))
      judge(task);
    context_.changed();
  });
  return true;
}

void FixedJob::judge(const TaskProcess& task) {
  const TaskRecord& record = task.record();
  const ExitStatus& status = *record.exit;
  const auto now = EventLoop::Clock::now();
  // Its work was done and the others knew that: what killed it then is no failure of the job.
  const bool finished =
      status.signal != 0 && task.restart_flag() == RestartStateOwner::Flag::finished;
  if (finished)
    log::warning("{} (pid {}) {} when its work was done; the job does not need it any more",
                 to_string(task.id()), record.pid, how_it_ended(record));
  switch (outcome_->on_exit(task.id(), finished ? ExitStatus{} : status)) {
    case Outcome::Effect::none:
      if (!status.success() && !finished)
        log::warning("{} (pid {}) ended with {}; the job goes on without it. Its log: {}",
                     to_string(task.id()), record.pid, to_string(status), record.log.string());
      else if (!is_service(task.id().type) && reminder_ == 0 && !context_.options.quiet)
        remind_of_awaited(kFirstReminder);
      break;
    case Outcome::Effect::success:
      context_.machine.succeed(now);
      break;
    case Outcome::Effect::failure:
    case Outcome::Effect::preemption:
      context_.machine.fail(record, now);
      break;
  }
}

void FixedJob::remind_of_awaited(milliseconds delay) {
  reminder_ = context_.loop.call_after(delay, [this, delay] {
    std::vector<std::string> ended, awaited;
    for (const auto& task : context_.tasks.all())
      if (!task->alive() && !is_service(task->id().type)) ended.push_back(to_string(task->id()));
    for (const auto& id : outcome_->awaited()) awaited.push_back(to_string(id));
    if (context_.machine.phase() != JobMachine::Phase::running || awaited.empty()) return;
    log::info("{} ended with 0; waiting for {} (Ctrl-C stops the job)", join(ended, ", "),
              join(awaited, ", "));
    remind_of_awaited(std::min<milliseconds>(2 * delay, kLastReminder));
  });
}

void FixedJob::stop() {
  context_.loop.cancel(std::exchange(reminder_, 0));
  for (const auto& [task, timer] : std::exchange(later_starts_, {})) context_.loop.cancel(timer);
}

std::string FixedJob::scale(int) {
  throw InvalidInput(fmt::format("job {} is not elastic: it has {} from start to end",
                                 context_.identity.job, describe_tasks(context_.options)),
                     {.advice = "Start such a job with: cohort run -n LEAST:MOST --elastic"});
}

}  // namespace cohort::launch
