#include "cohort/service/jobs/job_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"

namespace cohort::service {
namespace {

constexpr std::int64_t kPollMillis = 2000;
constexpr std::int64_t kUnknownMillis = 10000;  // an attempt that was submitted is known by then
constexpr std::int64_t kMostRetryMillis = 60000;
constexpr std::string_view kLostText = "the machine or its launcher died";

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
    const LiveJob job = live_job(*whole, *engine->second);
    queue_.remember(row.user, job.job.instance, std::max(row.instances, 1),
                    now_.steady - (now_.utc - row.started), now_.steady - (now_.utc - row.ended),
                    now_.steady);
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
  try {
    if (engine == engines_.end())
      throw InvalidInput(fmt::format("this service has no engine '{}'", row.engine));
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
  const auto attempts = store_.attempts(row.id);
  COHORT_CHECK(!attempts.empty(), "job {} is {} without an attempt", row.id, name_of(row.state));
  live.attempt = attempts.back();
  live.running_since = now_.steady;
  if (row.state != JobState::starting && row.started > 0)
    live.running_since -= std::clamp<Millis>(now_.utc - row.started, 0, now_.utc);
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
    written = write(
        live, JobState::queued, "starting",
        nlohmann::json{{"attempt", live.row.attempt}, {"instances", live.row.instances}}.dump());
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
    engine::AttemptRequest request;
    request.id = fmt::format("{}.{}", live.row.id, live.row.attempt);
    request.folder = folder(live);
    request.output = live.job.spec.output.empty() ? options_.folders.output(live.row.id)
                                                  : std::filesystem::path(live.job.spec.output);
    request.model = options_.folders.model(live.row.id);
    if (!live.job.spec.source.empty()) request.source = options_.find_source(live.job.spec.source);
    request.job = live.job;
    request.instances = live.row.instances;
    request.gpu_indices = gpu_indices(live.attempt);
    request.resume = live.row.resume;
    for (const auto& made : {request.folder, request.output, request.model}) make_own_folder(made);
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
    write(live, live.row.state, "note", nlohmann::json{{"text", live.row.reason}}.dump());
  }
}

// ---- Observing ----

void JobRounds::observe(LiveJob& live) {
  engine::AttemptStatus status = live.engine->observe(folder(live));
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
  if (!starts && !tasks_changed) return;
  store_.together([&] {
    if (starts) {
      live.row.state = JobState::running;
      live.row.reason.clear();
      live.row.started = now_.utc;
      live.running_since = now_.steady;
      live.attempt.state = name_of(engine::AttemptState::running);
      live.attempt.started = now_.utc;
      store_.put_attempt(live.attempt);
      write(live, JobState::starting, "started",
            nlohmann::json{{"attempt", live.row.attempt}}.dump());
    }
    if (tasks_changed) {
      about_to_change();
      store_.put_tasks(live.row.id, live.row.attempt,
                       task_rows(live.row.id, live.row.attempt, status.tasks));
    }
  });
  live.tasks = status.tasks;
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
    write(live, before, "lost",
          nlohmann::json{{"attempt", live.row.attempt}, {"reason", reason}}.dump());
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
  nlohmann::json data{{"state", name_of(state)}, {"reason", reason}};
  if (live.row.exit_code) data["exit_code"] = *live.row.exit_code;
  write(live, before, "ended", data.dump());
  active_.erase(id);
  again_.insert(id);  // forgotten then
}

// ---- Stopping and scaling ----

void JobRounds::stop_if_due(LiveJob& live) {
  const std::int64_t limit = std::chrono::milliseconds(live.job.spec.max_run).count();
  const bool over =
      limit > 0 && live.row.state == JobState::running && now_.steady - live.running_since >= limit;
  if (live.row.state == JobState::stopping ? live.stop_sent : !live.row.stop_asked && !over) return;
  if (live.row.state == JobState::starting && !live.submitted) return;  // once the engine knows it
  if (live.row.state != JobState::stopping) {
    const JobState before = live.row.state;
    live.row.state = JobState::stopping;
    live.row.reason = live.row.stop_asked ? ""
                                          : fmt::format("max_run of {} s has passed",
                                                        live.job.spec.max_run.count());
    if (!write(live, before, "stopping", nlohmann::json{{"reason", live.row.reason}}.dump()))
      return;
  }
  about_to_change();
  try {
    live.engine->stop(folder(live));
    live.stop_sent = true;
  } catch (const Error& error) {
    if (live.row.reason == error.what()) return;  // said, and tried again with each look
    live.row.reason = error.what();
    write(live, JobState::stopping, "note", nlohmann::json{{"text", live.row.reason}}.dump());
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
      write(live, JobState::running, "scaled",
            nlohmann::json{{"instances", live.row.instances}}.dump());
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
      write(live, live.row.state, "scaled",
            nlohmann::json{{"instances", live.row.instances}}.dump());
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
