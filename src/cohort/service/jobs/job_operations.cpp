#include "cohort/service/jobs/job_operations.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/jobs/job_ids.h"
#include "cohort/service/store/remove_job.h"

namespace cohort::service {

struct JobOperations::State {
  State(RunFolders folders, Resolve resolve, Wake wake)
      : folders(std::move(folders)),
        resolve(std::move(resolve)),
        wake(std::move(wake)),
        store(this->folders.root) {
    const auto newest = store.jobs({.limit = 1});
    if (!newest.empty()) last_id = newest.front().id;
  }

  RunFolders folders;
  Resolve resolve;
  Wake wake;
  RunStore store;
  std::string last_id;

  // The job as it is now, after its manager heard of it.
  JobRow told(std::string_view id) {
    wake(id);
    auto row = store.find_job(id);
    if (!row) throw NoSuchJob(fmt::format("there is no job '{}'", id));
    return *std::move(row);
  }
};

JobOperations::JobOperations(RunFolders folders, Resolve resolve, Wake wake)
    : state_(std::make_unique<State>(std::move(folders), std::move(resolve), std::move(wake))) {}

JobOperations::~JobOperations() = default;

RunStore& JobOperations::store() { return state_->store; }

jobspec::ResolvedJob JobOperations::check(const jobspec::JobSpec& spec) const {
  return state_->resolve(spec);
}

std::optional<JobRow> JobOperations::submitted(std::string_view user,
                                               std::string_view request_id) const {
  if (request_id.empty()) return std::nullopt;
  return state_->store.find_by_request(user, request_id);
}

JobRow JobOperations::submit(const jobspec::ResolvedJob& resolved, std::string_view user,
                             std::string_view request_id) {
  if (auto earlier = submitted(user, request_id)) return *std::move(earlier);
  const Millis now = utc_now();
  JobRow row;
  row.id = state_->last_id = next_job_id(state_->last_id, now);
  row.name = resolved.spec.name;
  row.user = user;
  row.request_id = request_id;
  row.queue = resolved.spec.queue;
  row.engine = resolved.spec.engine;
  row.priority = resolved.spec.priority;
  row.spec = jobspec::to_json(resolved.spec);
  row.resolved = jobspec::to_json(resolved);
  row.tags = nlohmann::json(resolved.spec.tags).dump();
  row.submitted = now;
  state_->store.add_job(row);
  state_->wake(row.id);
  return row;
}

JobRow JobOperations::stop(std::string_view id) {
  JobRow row = state_->store.job_named(id);
  // Twice at most: a queued job may be started in between, never the other way round.
  while (row.state == JobState::queued) {
    row.state = JobState::stopped;
    row.stop_asked = true;
    row.reason = row.attempt == 0 ? "stopped before it started" : "stopped while it waited";
    row.ended = utc_now();
    if (state_->store.update_job(row, JobState::queued, "ended", R"({"state":"stopped"})"))
      return state_->told(row.id);
    row = state_->store.job_named(row.id);
  }
  if (has_ended(row.state))
    throw InvalidInput(fmt::format("job {} has ended already ({})", row.id, name_of(row.state)));
  state_->store.ask_stop(row.id);
  return state_->told(row.id);
}

JobRow JobOperations::resume(std::string_view id) {
  JobRow row = state_->store.job_named(id);
  const JobState before = row.state;
  if (!has_ended(before))
    throw InvalidInput(fmt::format("job {} is {}; only a job that has ended can be resumed", row.id,
                                   name_of(before)));
  if (before == JobState::succeeded)
    throw InvalidInput(fmt::format("job {} has succeeded; there is nothing to resume", row.id),
                       {.advice = "Submit it again to run it again."});
  row.state = JobState::queued;
  row.reason.clear();
  row.exit_code.reset();
  row.stop_asked = false;
  row.wanted_workers = 0;
  row.instances = 0;
  row.ended = 0;
  row.resume = row.attempt > 0;
  if (!state_->store.update_job(row, before, "resumed"))
    throw InvalidInput(fmt::format("job {} was changed by another request", row.id),
                       {.advice = "Look at it again."});
  return state_->told(row.id);
}

JobRow JobOperations::scale(std::string_view id, int workers) {
  const JobRow row = state_->store.job_named(id);
  if (has_ended(row.state))
    throw InvalidInput(fmt::format("job {} has ended ({})", row.id, name_of(row.state)));
  const auto elastic = jobspec::resolved_from_json(row.resolved).spec.elastic;
  if (!elastic)
    throw InvalidInput(fmt::format("job {} is not elastic: its number of workers is fixed", row.id),
                       {.advice = "Submit it with elastic = {min = 1, max = N}."});
  if (workers < elastic->least || workers > elastic->most)
    throw InvalidInput(fmt::format("{} workers are out of the range of job {}: {} to {}", workers,
                                   row.id, elastic->least, elastic->most));
  if (row.state != JobState::running)
    throw InvalidInput(
        fmt::format("job {} is {}; only a running job can be scaled", row.id, name_of(row.state)));
  state_->store.ask_scale(row.id, workers);
  return state_->told(row.id);
}

JobRow JobOperations::pin(std::string_view id, bool pinned) {
  const JobRow row = state_->store.job_named(id);
  state_->store.set_pinned(row.id, pinned);
  return state_->told(row.id);
}

std::filesystem::path JobOperations::remove(std::string_view id) {
  const JobRow row = state_->store.job_named(id);
  if (!has_ended(row.state))
    throw InvalidInput(fmt::format("job {} is {}; only a job that has ended can be deleted", row.id,
                                   name_of(row.state)),
                       {.advice = fmt::format("Stop it first: cohort stop {}.", row.id)});
  auto folder = take_away(state_->store, state_->folders, row.id, PinnedJobs::go);
  state_->wake(row.id);
  return folder.value_or(std::filesystem::path());
}

}  // namespace cohort::service
