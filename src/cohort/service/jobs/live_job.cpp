#include "cohort/service/jobs/live_job.h"

#include <nlohmann/json.hpp>

#include "cohort/jobspec/spec_json.h"

namespace cohort::service {

LiveJob live_job(const JobRow& row, engine::Engine& engine) {
  LiveJob live;
  live.row = row;
  live.job = jobspec::resolved_from_json(row.resolved);
  live.engine = &engine;
  live.told_workers = row.wanted_workers;
  return live;
}

QueueJob queue_job(const LiveJob& live) {
  const auto& spec = live.job.spec;
  QueueJob job;
  job.id = live.row.id;
  job.name = live.row.name;
  job.user = live.row.user;
  job.priority = live.row.priority;
  job.instance = live.job.instance;
  job.least = spec.elastic ? spec.elastic->least : live.job.instances;
  job.most = spec.elastic ? spec.elastic->most : live.job.instances;
  // GPUs are handed out at the start of an attempt; Engine::scale() cannot add some.
  job.scales = live.engine->abilities().scales && job.least < job.most && job.instance.gpus == 0;
  job.max_run = std::chrono::milliseconds(spec.max_run).count();
  return job;
}

std::string gpus_json(const std::vector<Placed>& placement) {
  std::vector<int> all;
  for (const Placed& placed : placement)
    all.insert(all.end(), placed.gpus.begin(), placed.gpus.end());
  return nlohmann::json(all).dump();
}

std::vector<int> gpu_indices(const AttemptRow& attempt) {
  const auto json = nlohmann::json::parse(attempt.gpu_indices, nullptr, /*allow_exceptions=*/false);
  std::vector<int> indices;
  if (json.is_array())
    for (const auto& index : json)
      if (index.is_number_integer()) indices.push_back(index.get<int>());
  return indices;
}

std::vector<Placed> placement_of(const AttemptRow& attempt, int gpus_each) {
  const std::vector<int> all = gpu_indices(attempt);
  std::vector<Placed> placement(static_cast<std::size_t>(attempt.instances));
  std::size_t next = 0;
  for (Placed& placed : placement)
    for (int i = 0; i < gpus_each && next < all.size(); ++i) placed.gpus.push_back(all[next++]);
  return placement;
}

std::vector<TaskRow> task_rows(const std::string& job, int attempt,
                               const std::vector<engine::TaskStatus>& tasks) {
  std::vector<TaskRow> rows;
  for (const auto& task : tasks)
    rows.push_back({.job = job,
                    .attempt = attempt,
                    .name = task.name,
                    .host = task.host,
                    .state = task.state,
                    .exit_code = task.exit_code,
                    .restarts = task.restarts});
  return rows;
}

}  // namespace cohort::service
