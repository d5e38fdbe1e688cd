#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/engine/engine.h"
#include "cohort/jobspec/resolved_job.h"
#include "cohort/service/queue/queue.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// What the manager keeps in memory of a job that has not ended. All of it can be had again from
// the run store and the engine. Times are of the steady clock, in milliseconds.
struct LiveJob {
  JobRow row;  // as it is in the store
  AttemptRow attempt;
  jobspec::ResolvedJob job;
  engine::Engine* engine = nullptr;

  bool submitted = false;  // by this process
  std::int64_t submitted_at = 0;
  int refusals = 0;  // of the system, in a row
  std::int64_t retry_at = 0;
  std::int64_t running_since = 0;
  bool stop_sent = false;
  bool unseen = false;     // the engine could not look at it; said
  int told_workers = 0;    // the last that a person wanted
  int scale_to = 0;        // instances that the engine is to be asked for; 0: nothing to ask
  int giving_back_to = 0;  // instances that are to be left; 0: none are given back
  std::vector<engine::TaskStatus> tasks;  // as last written
  std::string waiting;                    // what its engine waits for, as last written

  bool has_attempt() const { return row.state != JobState::queued; }
};

LiveJob live_job(const JobRow& row, engine::Engine& engine);

QueueJob queue_job(const LiveJob& live);

// The GPUs of an attempt, as one JSON array and instance by instance; all on node 0.
std::string gpus_json(const std::vector<Placed>& placement);
std::vector<int> gpu_indices(const AttemptRow& attempt);
std::vector<Placed> placement_of(const AttemptRow& attempt, int gpus_each);

std::vector<TaskRow> task_rows(const std::string& job, int attempt,
                               const std::vector<engine::TaskStatus>& tasks);

}  // namespace cohort::service
