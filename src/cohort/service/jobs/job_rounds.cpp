#include "cohort/service/jobs/job_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/jobs/attempt_request.h"

namespace cohort::service {
namespace {

constexpr std::int64_t kPollMillis = 2000;
constexpr std::int64_t kUnknownMillis = 10000;  // an attempt that was submitted is known by then
constexpr std::int64_t kSourceMillis = 200;  // a source that is being unpacked is asked for again
constexpr std::int64_t kMostRetryMillis = 60000;
constexpr std::string_view kLostText = "the machine or its launcher died";

// What an event tells. A program's own words may be no UTF-8.
std::string event_text(const nlohmann::json& data) {
  return data.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// On the steady clock. Of the attempt's own start on that clock, which the clock of the day cannot
// move; by the clock of the day where the machine was started anew since.
std::int64_t running_since(const AttemptRow& attempt, const Instant& now) {
  if (attempt.started == 0) return now.steady;
  if (attempt.boot == now.boot) return std::min(attempt.steady, now.steady);
  return now.steady - std::clamp<Millis>(now.utc - attempt.started, 0, now.utc);
}

bool same_tasks(const std::vector<engine::TaskStatus>& a,
                const std::vector<engine::TaskStatus>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.host == y.host && x.state == y.state &&
           x.exit_code == y.exit_code && x.restarts == y.restarts;
  });
}

}  // namespace

JobRounds::JobRounds(const ManagerOptions& options, const Engines& engines, const Instant& now)
    : options_(options),
      engines_(engines),
      now_(now),
      store_(options.folders.root),
      queue_({options.machine}) {
  remember_shares();
  for (const JobRow& row : store_.unfinished_jobs()) adopt(row);
}

// What users had before this start, of the last jobs that ended: enough for a fair beginning.
void JobRounds::remember_shares() {
  const JobFilter ended{.states = {JobState::succeeded, JobState::failed, JobState::stopped},
                        .limit = 200};
  for (const JobRow& row : store_.jobs(ended)) {
    if (row.started <= 0 || row.ended <= row.started || row.ended > now_.utc) continue;
    const auto whole = store_.find_job(row.id);
    if (!whole) continue;
    const auto engine = engines_.find(row.engine);
    if (engine == engines_.end() || !engine->second->abilities().needs_queue) continue;
    try {
      queue_.remember(row.user, jobspec::resolved_from_json(whole->resolved).instance,
                      std::max(row.instances, 1), now_.steady - (now_.utc - row.started),
                      now_.steady - (now_.utc - row.ended), now_.steady);
    } catch (const InvalidInput&) {  // of another version
    }
  }
}

std::int64_t JobRounds::round(const std::set<std::string>& woken, const Instant& now) {
  now_ = now;
  std::set<std::string> changed = woken;
  changed.merge(again_);
  again_.clear();
  for (const std::string& id : changed) look_again(id);

  std::set<std::string> to_observe;
  for (const std::string& id : watch_.changed()) to_observe.insert(id);
  const bool poll = now.steady >= next_poll_;
  if (poll) next_poll_ = now.steady + kPollMillis;
  for (const std::string& id : std::vector<std::string>(active_.begin(), active_.end())) {
    LiveJob& live = live_.at(id);
    if (poll || to_observe.contains(id) || changed.contains(id) ||
        (live.retry_at > 0 && now.steady >= live.retry_at))
      observe(live);
    if (active_.contains(id)) stop_if_due(live_.at(id));
  }
  for (const std::string& id : std::vector<std::string>(at_once_.begin(), at_once_.end()))
    begin(live_.at(id), {});
  carry_out(queue_.decide(now.steady));
  write_reasons();

  std::int64_t due = std::numeric_limits<std::int64_t>::max();
  if (!live_.empty()) due = next_poll_;
  for (const std::string& id : active_) {
    const LiveJob& live = live_.at(id);
    if (live.retry_at > 0) due = std::min(due, live.retry_at);
    const std::int64_t limit = std::chrono::milliseconds(live.job.spec.max_run).count();
    if (limit > 0 && live.row.state == JobState::running)
      due = std::min(due, live.running_since + limit);
  }
  return again_.empty() ? due : now.steady;
}

void JobRounds::look_again(const std::string& id) {
  const auto row = store_.find_job(id);
  const auto found = live_.find(id);
  if (!row || has_ended(row->state)) {
    forget(id);
  } else if (found == live_.end()) {
    adopt(*row);
  } else if (row->state != found->second.row.state) {
    forget(id);
    adopt(*row);
  } else {
    found->second.row = *row;
    take_wanted_workers(found->second);
  }
}

void JobRounds::adopt(const JobRow& row) {
  const auto engine = engines_.find(row.engine);
  const auto attempts = store_.attempts(row.id);
  try {
    if (engine == engines_.end())
      throw InvalidInput(fmt::format("this service has no engine '{}'", row.engine));
    if (row.state != JobState::queued && attempts.empty())
      throw InvalidInput("the run store has no attempt of it");
    live_.emplace(row.id, live_job(row, *engine->second));
  } catch (const InvalidInput& refusal) {
    JobRow failed = row;
    failed.state = JobState::failed;
    failed.reason = refusal.what();
    failed.ended = now_.utc;
    about_to_change();
    store_.update_job(failed, row.state, "ended", R"({"state":"failed"})");
    return;
  }
  LiveJob& live = live_.at(row.id);
  const bool queued = engine->second->abilities().needs_queue;
  if (!live.has_attempt()) {
    if (queued)
      queue_.add(queue_job(live), now_.steady);
    else
      at_once_.insert(row.id);
    return;
  }
  live.attempt = attempts.back();
  live.running_since = running_since(live.attempt, now_);
  if (queued)
    queue_.add_running(queue_job(live), placement_of(live.attempt, live.job.instance.gpus),
                       live.running_since, now_.steady);
  if (live.job.spec.elastic && row.instances > 0) live.scale_to = row.instances;
  take_wanted_workers(live);
  active_.insert(row.id);
  again_.insert(row.id);
  watch_.add(row.id, folder(live));
}

void JobRounds::forget(const std::string& id) {
  queue_.remove(id, now_.steady);
  watch_.remove(id);
  live_.erase(id);
  active_.erase(id);
  at_once_.erase(id);
}

bool JobRounds::write(LiveJob& live, JobState expected, std::string_view kind,
                      const std::string& data) {
  about_to_change();
  if (store_.update_job(live.row, expected, kind, data)) return true;
  again_.insert(live.row.id);
  return false;
}

// ---- Starting ----

void JobRounds::begin(LiveJob& live, const std::vector<Placed>& placement) {
  const JobRow before = live.row;
  live.row.state = JobState::starting;
  live.row.reason.clear();
  live.row.attempt = before.attempt + 1;
  live.row.instances = placement.empty() ? live.job.instances : static_cast<int>(placement.size());
  live.attempt = {.job = live.row.id,
                  .number = live.row.attempt,
                  .state = std::string(name_of(engine::AttemptState::starting)),
                  .instances = live.row.instances,
                  .gpu_indices = gpus_json(placement),
                  .created = now_.utc};
  bool written = false;
  store_.together([&] {
    written = write(live, JobState::queued, "starting",
                    event_text({{"attempt", live.row.attempt}, {"instances", live.row.instances}}));
    if (written) store_.put_attempt(live.attempt);
  });
  at_once_.erase(before.id);
  if (!written) {  // stopped in the meantime
    live.row = before;
    return;
  }
  active_.insert(live.row.id);
  submit(live);
}

void JobRounds::submit(LiveJob& live) {
  live.retry_at = 0;
  try {
    engine::AttemptRequest request = attempt_request(live, options_.folders);
    if (!live.job.spec.source.empty()) {
      const auto source = options_.find_source(live.job.spec.source);
      if (!source) {
        live.retry_at = now_.steady + kSourceMillis;
        return;
      }
      request.source = *source;
    }
    make_folders(request);
    about_to_change();
    live.engine->submit(request);
    live.submitted = true;
    live.submitted_at = now_.steady;
    live.refusals = 0;
    watch_.add(live.row.id, request.folder);
    again_.insert(live.row.id);
  } catch (const InvalidInput& refusal) {
    end_job(live, JobState::failed, refusal.what());
  } catch (const Error& error) {
    const std::int64_t wait = std::min<std::int64_t>(
        kMostRetryMillis, std::int64_t{1000} << std::min(live.refusals++, 6));
    live.retry_at = now_.steady + wait;
    live.row.reason = fmt::format("{}; it is tried again in {} s", error.what(), wait / 1000);
    write(live, live.row.state, "note", event_text({{"text", live.row.reason}}));
  }
}

// ---- Observing ----

void JobRounds::observe(LiveJob& live) {
  engine::AttemptStatus status;
  try {
    status = live.engine->observe(folder(live));
  } catch (const std::exception& error) {  // one that cannot be looked at must not stop the others
    if (!live.unseen) log::warning("job {}: {}; looked at again", live.row.id, error.what());
    live.unseen = true;
    return;
  }
  live.unseen = false;
  if (status.state != engine::AttemptState::unknown) {
    live.submitted = true;
  } else if (live.attempt.started == 0) {  // also one that is to stop: only a known one can
    const bool waits = now_.steady < live.retry_at ||
                       (live.submitted && now_.steady < live.submitted_at + kUnknownMillis);
    if (!waits) submit(live);
    return;
  } else {
    status.state = engine::AttemptState::lost;
  }
  if (engine::has_ended(status.state)) {
    end_attempt(live, status);
    return;
  }
  note_running(live, status);
  if (live_.contains(live.row.id)) scale(live, status);
}

void JobRounds::note_running(LiveJob& live, const engine::AttemptStatus& status) {
  const bool starts =
      live.row.state == JobState::starting && (status.state == engine::AttemptState::running ||
                                               status.state == engine::AttemptState::stopping);
  const bool tasks_changed = !same_tasks(live.tasks, status.tasks);
  if (!status.waiting.empty()) live.running_since = now_.steady;  // max_run is for what runs
  if (status.waiting != live.waiting && live.row.state != JobState::stopping)
    note_waiting(live, status.waiting);
  if (!starts && !tasks_changed) return;
  store_.together([&] {
    if (starts) {
      live.row.state = JobState::running;
      live.row.reason.clear();
      live.row.started = now_.utc;
      live.running_since = now_.steady;
      live.attempt.state = name_of(engine::AttemptState::running);
      live.attempt.started = now_.utc;
      live.attempt.steady = now_.steady;
      live.attempt.boot = now_.boot;
      store_.put_attempt(live.attempt);
      write(live, JobState::starting, "started", event_text({{"attempt", live.row.attempt}}));
    }
    if (tasks_changed) {
      about_to_change();
      store_.put_tasks(live.row.id, live.row.attempt,
                       task_rows(live.row.id, live.row.attempt, status.tasks));
    }
  });
  live.tasks = status.tasks;
}

// What an engine's scheduler makes it wait for, before it runs or once more later.
void JobRounds::note_waiting(LiveJob& live, const std::string& waiting) {
  live.waiting = waiting;
  live.row.reason = waiting;
  if (waiting.empty()) {
    about_to_change();
    if (!store_.update_job(live.row, live.row.state)) again_.insert(live.row.id);
  } else {
    write(live, live.row.state, "note", event_text({{"text", waiting}}));
  }
}

void JobRounds::end_attempt(LiveJob& live, const engine::AttemptStatus& status) {
  using engine::AttemptState;
  const std::string id = live.row.id;
  const bool stopping = live.row.state == JobState::stopping || live.row.stop_asked;
  bool goes_on = false;
  store_.together([&] {
    live.attempt.state = name_of(status.state);
    live.attempt.exit_code = status.exit_code;
    live.attempt.failure = status.failure;
    if (live.attempt.started == 0) live.attempt.started = live.attempt.created;
    live.attempt.ended = now_.utc;
    about_to_change();
    store_.put_attempt(live.attempt);
    if (!status.tasks.empty())
      store_.put_tasks(id, live.row.attempt, task_rows(id, live.row.attempt, status.tasks));
    if (live.row.started == 0) live.row.started = live.attempt.started;
    live.row.exit_code = status.exit_code;

    std::string reason = status.failure;
    JobState state = JobState::failed;
    if (status.state == AttemptState::succeeded) {
      state = JobState::succeeded;
    } else if (stopping) {
      state = JobState::stopped;
      reason = live.row.reason;
    } else if (status.state == AttemptState::stopped) {
      state = JobState::stopped;
      if (reason.empty()) reason = "stopped from outside of the service";
    } else if (status.state == AttemptState::lost) {
      if (reason.empty()) reason = kLostText;
      const auto attempts = store_.attempts(id);
      const auto lost = std::count_if(attempts.begin(), attempts.end(), [](const AttemptRow& row) {
        return row.state == name_of(AttemptState::lost);
      });
      goes_on = lost <= live.job.spec.restarts.value_or(0);
    }
    if (!goes_on) {
      end_job(live, state, reason);
      return;
    }
    const JobState before = live.row.state;
    live.row.state = JobState::queued;
    live.row.resume = true;
    live.row.reason = reason;
    write(live, before, "lost", event_text({{"attempt", live.row.attempt}, {"reason", reason}}));
  });
  forget(id);
  if (goes_on) again_.insert(id);
}

void JobRounds::end_job(LiveJob& live, JobState state, const std::string& reason) {
  const std::string id = live.row.id;
  const JobState before = live.row.state;
  live.row.state = state;
  live.row.reason = reason;
  live.row.ended = now_.utc;
  if (live.attempt.number > 0 && live.attempt.ended == 0) {  // the engine never had it
    using engine::AttemptState;
    live.attempt.state =
        name_of(state == JobState::stopped ? AttemptState::stopped : AttemptState::failed);
    live.attempt.failure = reason;
    live.attempt.ended = now_.utc;
    store_.put_attempt(live.attempt);
  }
  nlohmann::json data{{"state", name_of(state)}, {"reason", reason}};
  if (live.row.exit_code) data["exit_code"] = *live.row.exit_code;
  write(live, before, "ended", event_text(data));
  active_.erase(id);
  again_.insert(id);  // forgotten then
}

// ---- Stopping and scaling ----

void JobRounds::stop_if_due(LiveJob& live) {
  const std::int64_t limit = std::chrono::milliseconds(live.job.spec.max_run).count();
  const bool over =
      limit > 0 && live.row.state == JobState::running && now_.steady - live.running_since >= limit;
  if (live.row.state == JobState::stopping ? live.stop_sent : !live.row.stop_asked && !over) return;
  // One that the engine did not take, so far, is stopped by not trying again.
  const bool is_unknown = live.row.state == JobState::starting && !live.submitted;
  if (is_unknown && live.refusals == 0) return;  // once the engine knows it
  if (live.row.state != JobState::stopping) {
    const JobState before = live.row.state;
    live.row.state = JobState::stopping;
    live.row.reason = live.row.stop_asked ? ""
                                          : fmt::format("max_run of {} s has passed",
                                                        live.job.spec.max_run.count());
    if (!write(live, before, "stopping", event_text({{"reason", live.row.reason}}))) return;
  }
  about_to_change();
  try {
    live.engine->stop(folder(live));
    live.stop_sent = true;
    if (is_unknown) end_job(live, JobState::stopped, "stopped before it started");
  } catch (const Error& error) {
    if (live.row.reason == error.what()) return;  // said, and tried again with each look
    live.row.reason = error.what();
    write(live, JobState::stopping, "note", event_text({{"text", live.row.reason}}));
  }
}

void JobRounds::take_wanted_workers(LiveJob& live) {
  if (live.row.wanted_workers <= 0) return;
  queue_.set_most(live.row.id, live.row.wanted_workers);
  if (live.told_workers == live.row.wanted_workers) return;
  live.told_workers = live.row.wanted_workers;
  if (!live.engine->abilities().needs_queue) live.scale_to = live.row.wanted_workers;
}

void JobRounds::scale(LiveJob& live, const engine::AttemptStatus& status) {
  if (live.row.state != JobState::running) return;
  if (live.scale_to > 0) {
    about_to_change();
    try {
      live.engine->scale(folder(live), live.scale_to);
    } catch (const Error&) {
      return;  // it is not ready for it; asked again with the next look
    }
    live.scale_to = 0;
  }
  // No members at all: they are only about to gather.
  const int members = status.workers.value_or(live.giving_back_to);
  if (live.giving_back_to > 0 && members > 0 && members <= live.giving_back_to) {
    live.row.instances = live.attempt.instances = live.giving_back_to;
    live.giving_back_to = 0;
    store_.together([&] {
      store_.put_attempt(live.attempt);
      write(live, JobState::running, "scaled", event_text({{"instances", live.row.instances}}));
    });
    queue_.returned(live.row.id, now_.steady);
  }
}

void JobRounds::carry_out(const Decision& decision) {
  for (const QueueStart& start : decision.starts) begin(live_.at(start.id), start.placement);
  for (const QueueScale& scale : decision.scales) {
    LiveJob& live = live_.at(scale.id);
    live.scale_to = scale.instances;
    again_.insert(scale.id);
    if (scale.instances < live.row.instances) {
      live.giving_back_to = scale.instances;
      continue;
    }
    live.giving_back_to = 0;
    live.row.instances = live.attempt.instances = scale.instances;
    store_.together([&] {
      store_.put_attempt(live.attempt);
      write(live, live.row.state, "scaled", event_text({{"instances", live.row.instances}}));
    });
  }
}

void JobRounds::write_reasons() {
  const auto reasons = queue_.reasons(now_.steady);
  std::vector<std::pair<LiveJob*, std::string>> changed;
  for (auto& [id, live] : live_) {
    if (live.has_attempt() || at_once_.contains(id) || again_.contains(id)) continue;
    const auto found = reasons.find(id);
    std::string reason(found == reasons.end() ? Queue::kFarReason : found->second);
    if (reason != live.row.reason) changed.emplace_back(&live, std::move(reason));
  }
  if (changed.empty()) return;
  about_to_change();
  store_.together([&] {
    for (auto& [live, reason] : changed) {
      live->row.reason = reason;
      if (!store_.update_job(live->row, JobState::queued)) again_.insert(live->row.id);
    }
  });
}

}  // namespace cohort::service
