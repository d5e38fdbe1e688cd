// What a Supervisor writes down: the job's options and record, and on the screen how it ended.
#include <fmt/format.h>

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_options_json.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/record/old_runs.h"
#include "cohort/launch/supervise/elastic_job.h"
#include "cohort/launch/supervise/supervisor.h"

namespace cohort::launch {
namespace {

constexpr int kRecordShare = 10;  // so much longer than writing a record is the pause after it

}  // namespace

int Supervisor::conclude(JobState state, int exit_code) {
  record_.state = state;
  record_.exit_code = exit_code;
  record_.ended = utc_timestamp();
  write_record();
  clean_up_old_runs();
  double duration =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  switch (state) {
    case JobState::succeeded:
      if (!options_.quiet) log::info("job {} succeeded in {:.1f} s", identity_.job, duration);
      break;
    case JobState::stopped:
      log::info("job {} was stopped by {} after {:.1f} s; logs in {}", identity_.job,
                signal_name(stop_signal_), duration, folder_.logs().string());
      break;
    default:
      log::error("job {} failed after {:.1f} s{}", identity_.job, duration,
                 record_.failure.empty() ? "" : ": " + record_.failure);
      if (record_.root_cause)
        log::write_report(root_cause_report(*record_.root_cause, task_records()));
  }
  return exit_code;
}

// Of the folder that jobs without --output share; one that a person named is that person's.
void Supervisor::clean_up_old_runs() const {
  if (!options_.output.empty()) return;
  const auto removed = remove_old_runs(folder_.path().parent_path(), options_.keep);
  if (removed.empty() || options_.quiet) return;
  log::info("removed {} of more than {} days ago from {} ({}); see cohort run --keep",
            count(static_cast<int>(removed.size()), "run", "runs"),
            std::chrono::duration_cast<std::chrono::hours>(kKeptTime).count() / 24,
            as_seen_from_here(folder_.path().parent_path()).string(),
            removed.size() == 1 ? removed.front() : removed.front() + " to " + removed.back());
}

std::vector<TaskRecord> Supervisor::task_records() const {
  std::vector<TaskRecord> records;
  for (const auto& task : tasks_) records.push_back(task->record());
  return records;
}

void Supervisor::write_options() {
  JobOptions options = options_;
  options.output = folder_.path();
  options.resume = false;
  write(folder_.path() / kJobOptionsFile, to_json(options), 0600);  // --env may hold secrets
}

// A record grows with the job, and so does what it costs: of a thousand tasks that end at once not
// each is worth one. Most of the launcher's time is left to the tasks.
void Supervisor::write_record_soon() {
  if (record_timer_ != 0) return;
  if (EventLoop::Clock::now() >= record_due_) return write_record();
  record_timer_ = loop_.call_at(record_due_, [this] { write_record(); });
}

void Supervisor::write_record() {
  loop_.cancel(std::exchange(record_timer_, 0));
  const auto begun = EventLoop::Clock::now();
  record_.tasks = task_records();
  if (elastic_) record_.elastic = elastic_->record();
  write(folder_.record(), to_json(record_));
  const auto ended = EventLoop::Clock::now();
  record_due_ = ended + kRecordShare * (ended - begun);
}

void Supervisor::write(const std::filesystem::path& path, const std::string& text, mode_t mode) {
  try {
    write_file_atomically(path, text, mode);
    record_failed_ = false;
  } catch (const SystemError& error) {
    if (!record_failed_) log::warning("{}; the job goes on", error.what());
    record_failed_ = true;
  }
}

}  // namespace cohort::launch
