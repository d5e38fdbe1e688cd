#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/engine/engine.h"
#include "cohort/jobspec/job_spec.h"
#include "cohort/report/progress_file.h"
#include "cohort/service/metrics/log_metrics.h"
#include "cohort/service/metrics/metric_files.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Brings one job's metrics, progress and log marks into the run store: from its tasks' logs (its
// metric_definitions), from metrics.csv, metrics.jsonl, progress.json and TensorBoard's event files
// in its output folder. How far each source was read is written with its values in one transaction:
// after a kill nothing is lost or there twice.
//
// A value that a definition finds without a step gets the next number of this metric and task. All
// that one call reads is bounded; a job has at most a million values, later ones are dropped, and an
// event "note" says so.
//
// Confined to one thread, as the store. Throws what store and engine throw: the next call goes on.
class JobMetrics {
 public:
  struct Places {
    RunFolders folders;
    std::filesystem::path output;  // of the job
  };

  JobMetrics(Places places, const jobspec::JobSpec& spec);

  struct Found {
    bool more = false;  // there is more to read at once
    bool any = false;   // something was new
  };
  // `job`: as the store has it now; `engine` null: logs are left alone.
  Found collect(RunStore& store, const JobRow& job, const engine::Engine* engine, Millis now);

  // The most that is read of one source in one call.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;
  static constexpr std::int64_t kMostValues = 1'000'000;

 private:
  struct Pass;  // what collect() was called with, and what it found

  void collect_logs(Pass& pass);
  bool collect_log_part(Pass& pass, int attempt, const std::string& task);
  void collect_csv(Pass& pass);
  void collect_json(Pass& pass);
  void collect_events(Pass& pass);
  void collect_progress(Pass& pass);
  void put(Pass& pass, std::vector<MetricRow> rows, const std::vector<CursorRow>& cursors);

  const Places places_;
  const LogMetrics definitions_;
  std::optional<std::int64_t> values_;  // in the store
  std::optional<std::filesystem::file_time_type> csv_time_;
  std::vector<std::filesystem::path> event_files_;
  std::set<std::filesystem::path> damaged_;
  Millis next_search_ = 0;
  std::int64_t progress_time_ = 0;
};

}  // namespace cohort::service
