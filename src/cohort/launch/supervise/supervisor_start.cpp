// How a Supervisor starts the tasks of an attempt, and keeps its ears open meanwhile: a job of a
// thousand tasks takes seconds to start, and may be stopped at any time.
#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/supervise/supervisor.h"

namespace cohort::launch {
namespace {

constexpr std::chrono::milliseconds kLookAround{20};

}  // namespace

// Sees to signals, output and questions now and then. False: the job does not go on.
bool Supervisor::look_around() {
  if (const auto now = EventLoop::Clock::now(); now - looked_around_ >= kLookAround) {
    loop_.run_once(Deadline::at(now));
    looked_around_ = EventLoop::Clock::now();
  }
  return phase_ == Phase::running;
}

bool Supervisor::make_tasks() {
  for (const cluster::TaskId& id : planner_->tasks()) {
    tasks_.push_back(std::make_unique<TaskProcess>(
        planner_->plan(id), record_.attempt, options_.task_restarts > 0, loop_, screen_, guard_));
    if (!look_around()) return false;
  }
  return true;
}

void Supervisor::start_tasks() {
  for (std::size_t i = 0; i < tasks_.size() && look_around(); ++i)
    tasks_[i]->start(start_options());
}

void Supervisor::replace_guard() {
  if (guard_lost_) return;
  const pid_t dead = guard_.pid();
  try {
    if (guard_.replace_if_dead())
      log::warning("the guard of this job (pid {}) was killed; another one (pid {}) took its place",
                   dead, guard_.pid());
  } catch (const SystemError& error) {
    guard_lost_ = true;
    log::warning(
        "the guard of this job (pid {}) was killed, and there is no other: {}; if this "
        "launcher is killed too, processes that left their task's group stay behind",
        dead, error.what());
  }
}

}  // namespace cohort::launch
