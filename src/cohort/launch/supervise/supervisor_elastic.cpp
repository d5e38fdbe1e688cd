// What a Supervisor does for an elastic job alone.
#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/launch/plan/job_hosts.h"
#include "cohort/launch/supervise/elastic_job.h"
#include "cohort/launch/supervise/job_services.h"
#include "cohort/launch/supervise/supervisor.h"

namespace cohort::launch {

void Supervisor::prepare_elastic() {
  auto decide = [this](bool success) {
    succeeded_ = success;
    if (!success) {
      record_.failure = elastic_->failure();
      failures_ = elastic_->failures();
    }
    begin_stop();
    write_record();
  };
  elastic_ = std::make_unique<ElasticJob>(
      ElasticJob::Setup{.options = *options_.elastic,
                        .grace = options_.grace,
                        .quiet = options_.quiet,
                        .job = identity_.job,
                        .attempt = record_.attempt,
                        .store = identity_.store,
                        .secret = services_->secret(),
                        .log = folder_.path() / "membership.jsonl",
                        .room = hosts_ ? hosts_->slots() : options_.elastic->most,
                        .wanted = wanted_workers_.value_or(options_.elastic->most)},
      tasks_, loop_,
      ElasticJob::Hooks{[this](TaskProcess& task) { return start_elastic(task); },
                        [this] { write_record(); }, decide});
}

bool Supervisor::start_elastic(TaskProcess& task) {
  if (hosts_) {
    const auto host = hosts_->take(task.id());
    if (!host) return false;
    planner_->place(task.id(), *host);
    task.replan(planner_->plan(task.id()));
  }
  try {
    if (task.record().exit)
      task.start_again(start_options());
    else
      task.start(start_options());
  } catch (...) {
    if (hosts_) hosts_->leave(task.id());
    throw;
  }
  return true;
}

bool Supervisor::start_now_or_later(TaskProcess& task, int tries) {
  try {
    task.start_again(start_options());
    return true;
  } catch (const Error& error) {
    const bool later = is_shortage(error) && tries < kStartTries;
    if (!later || tries == 0)
      log::warning("{} cannot be started again{}: {}", to_string(task.id()),
                   later ? " for the moment" : "", error.what());
    if (!later) return false;
  }
  ++starts_to_come_;
  loop_.call_after(kStartPause, [this, &task, tries, attempt = record_.attempt] {
    if (attempt != record_.attempt) return;  // `task` is gone
    --starts_to_come_;
    if (phase_ == Phase::running && !start_now_or_later(task, tries + 1)) judge_exit(task);
    write_record();
  });
  return true;
}

// True when the first list of hosts has come; false when the job is over without one.
bool Supervisor::wait_for_hosts() {
  if (!options_.elastic || (options_.hosts.empty() && options_.elastic->discovery_script.empty()))
    return true;
  hosts_ =
      std::make_unique<JobHosts>(options_, identity_.job, environment_, loop_,
                                 [this](int slots, const std::vector<cluster::TaskId>& homeless) {
                                   if (elastic_) elastic_->set_room(slots, homeless);
                                 });
  const auto deadline = Deadline::after(options_.elastic->timeout);
  while (!hosts_->known() && !stop_requested_ && !deadline.expired()) loop_.run_once(deadline);
  if (!hosts_->known() || stop_requested_) {
    hosts_.reset();
    if (!stop_requested_)
      record_.failure =
          fmt::format("the host discovery script '{}' named no hosts within {:g} s",
                      options_.elastic->discovery_script.string(),
                      std::chrono::duration<double>(options_.elastic->timeout).count());
    return false;
  }
  identity_.address = hosts_->settle_address();
  return true;
}

}  // namespace cohort::launch
