#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/error.h"

// What the service remembers: jobs, attempts, tasks, events, metrics, tokens, in one SQLite file
// (WAL) under the root folder. Logs and artefacts are files beside it (RunFolders).
namespace cohort::service {

enum class JobState { queued, starting, running, stopping, succeeded, failed, stopped };

std::string_view name_of(JobState state);
std::optional<JobState> job_state_of(std::string_view name);
bool has_ended(JobState state);

using Millis = std::int64_t;  // UTC, since 1970
Millis utc_now();

// No job has this id, prefix or name; or several have.
class NoSuchJob : public InvalidInput {
  using InvalidInput::InvalidInput;
};
class AmbiguousJob : public InvalidInput {
  using InvalidInput::InvalidInput;
};

struct JobRow {
  std::string id;  // "20261116-190102-7f3a9c": sorts by time
  std::string name;
  std::string user;
  std::string queue;
  std::string engine;
  std::string request_id;  // the client's own, unique for a user; "": none
  int priority = 0;
  JobState state = JobState::queued;
  std::string reason;    // why it waits, or why it failed: a sentence
  std::string spec;      // JSON (jobspec)
  std::string resolved;  // JSON (jobspec::ResolvedJob)
  std::string tags;      // JSON object
  bool pinned = false;
  bool stop_asked = false;
  bool resume = false;     // the next attempt goes on from the last one's checkpoints
  int attempt = 0;         // the newest; 0: none yet
  int collected = 0;       // the newest whose logs and files were read to their end
  int instances = 0;       // given now
  int wanted_workers = 0;  // by `cohort scale`; 0: not asked
  std::optional<int> exit_code;
  std::optional<double> progress;  // 0 to 1
  std::optional<Millis> eta;       // when it is expected to end
  Millis submitted = 0;
  Millis started = 0;  // 0: not yet
  Millis ended = 0;
};

struct AttemptRow {
  std::string job;
  int number = 1;
  std::string state;  // engine::AttemptState by name
  std::optional<int> exit_code;
  std::string failure;
  int instances = 1;
  std::string gpu_indices;  // JSON array
  Millis created = 0;
  Millis started = 0;
  Millis ended = 0;
  std::int64_t steady = 0;  // `started` on the machine's steady clock, milliseconds
  std::string boot = {};    // which start of the machine that clock counts from; "": unknown
};

struct TaskRow {
  std::string job;
  int attempt = 1;
  std::string name;  // "worker:1"
  std::string host;
  std::string state;
  std::optional<int> exit_code;
  int restarts = 0;
};

struct EventRow {
  std::int64_t id = 0;  // grows; a follower goes on behind the last that it has
  Millis time = 0;
  std::string job;
  std::string user;  // whose job
  std::string kind;  // submitted, started, scaled, stopping, ended, note, deleted ...
  std::string data;  // JSON object
};

struct MetricRow {
  std::int64_t id = 0;
  std::string job;
  std::string name;
  std::int64_t step = 0;
  double value = 0;
  Millis time = 0;
};

struct JobFilter {
  std::vector<JobState> states;  // empty: all
  std::string user;              // "": all
  std::string queue;
  std::string name;    // substring
  std::string tag;     // "key" or "key=value"
  std::string text;    // in id, name, user or a tag; ASCII's letters in upper or lower case
  std::string before;  // ids that sort before this one (the next page)
  int limit = 100;     // 0: no limit
};

// How far a reader of logs and files has come, by job and source ("log worker:0", a path). `state`
// is the reader's own text: what else it must know to go on there.
struct CursorRow {
  std::string job;
  std::string source;
  std::int64_t position = 0;
  std::string state;
};

// What a change outlives once the call has returned.
enum class Durability {
  power_loss,     // jobs, attempts, tokens: nothing acknowledged is lost
  process_death,  // what can be collected again: metrics, cursors, log marks
};

class Database;
struct OpenStore;

// Opening creates or migrates the file, after a backup of the old one (store_schema.h). Throws
// InvalidInput for a file that is corrupt or of a newer version, with what to do; SystemError where
// the disk fails: nothing is half done then, every change is one transaction.
//
// Threads: confined to one; each thread opens its own. Several may write: SQLite locks, and a busy
// file is waited for (5 s), then TimeoutError.
class RunStore {
 public:
  explicit RunStore(const std::filesystem::path& root,
                    Durability durability = Durability::power_loss);
  ~RunStore();
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  // Several changes as one transaction: all of them, or none when `changes` throws.
  void together(const std::function<void()>& changes);

  // Jobs. A change and its event are one transaction.
  // With the event "submitted". Throws InvalidInput for an id or a user's request_id twice.
  void add_job(const JobRow& job);
  std::optional<JobRow> find_job(std::string_view id) const;
  std::optional<JobRow> find_by_request(std::string_view user, std::string_view request_id) const;
  // The job with this id, this name, or whose id begins so, in this order. Throws NoSuchJob, or
  // AmbiguousJob, which names some of the several.
  JobRow job_named(std::string_view id_or_name) const;
  // Newest first. `spec` and `resolved`, which lists do not show, are left empty: find_job().
  std::vector<JobRow> jobs(const JobFilter& filter) const;
  std::vector<JobRow> unfinished_jobs() const;  // oldest first, whole rows
  // Those with attempts behind `collected`, oldest first, without texts: they run, or have ended
  // since the metrics collector saw them last.
  std::vector<JobRow> uncollected_jobs() const;
  // False, and nothing is written, when the state that the file has is not `expected`. Writes what
  // the caller decides, and leaves alone what others may have written since the row was read: id,
  // user, request_id, spec, tags, submitted, pinned, collected, progress, eta and wanted_workers
  // stay;
  // stop_asked can be set, not taken back. Only a job that leaves its end (resumed) gets
  // wanted_workers and stop_asked as the row has them, and no progress. One that ends loses its
  // eta; one that succeeds has progress 1.
  bool update_job(const JobRow& job, JobState expected, std::string_view event_kind = {},
                  std::string_view event_data = {});
  // One column each, for requests that may come at any time; false when there is no such job.
  bool ask_stop(std::string_view id);
  bool ask_scale(std::string_view id, int workers);
  bool set_pinned(std::string_view id, bool pinned);
  // The latter: false also when the job has ended.
  bool set_progress(std::string_view id, std::optional<double> progress, std::optional<Millis> eta);
  bool set_collected(std::string_view id, int attempt);
  // With attempts, tasks, metrics; events stay, and "deleted" joins them. None: nothing happens.
  void remove_job(std::string_view id);

  // Attempts and tasks. Throws InvalidInput when there is no such job.
  void put_attempt(const AttemptRow& attempt);
  std::vector<AttemptRow> attempts(std::string_view job) const;  // the first one first
  void put_tasks(std::string_view job, int attempt, const std::vector<TaskRow>& tasks);
  std::vector<TaskRow> tasks(std::string_view job, int attempt) const;  // as they were put
  int task_count(std::string_view job, int attempt) const;

  // Events. `job` "": of all jobs; `user` "": of all users. An id is never given twice.
  void add_event(std::string_view job, std::string_view kind, std::string_view data);
  std::vector<EventRow> events_after(std::int64_t id, std::string_view job, std::string_view user,
                                     int limit) const;
  std::int64_t last_event() const;
  // Events before `time` of jobs that are gone: how many were removed.
  int remove_old_events(Millis time);

  // Metrics. `name` "": all. Numbers that are not finite come back as they were.
  void add_metrics(const std::vector<MetricRow>& rows);  // ids are given here
  std::vector<MetricRow> metrics(std::string_view job, std::string_view name, std::int64_t after,
                                 int limit) const;
  std::vector<std::string> metric_names(std::string_view job) const;
  std::int64_t metric_count(std::string_view job) const;

  void put_cursor(const CursorRow& cursor);
  CursorRow cursor(std::string_view job, std::string_view source) const;  // none: at 0

  // Where a task's log stood when, for `logs --since`. At most one mark a second and task; fewer
  // once the attempt is older than an hour, so that an attempt of days has tens of thousands.
  void add_log_mark(std::string_view job, int attempt, std::string_view task, Millis time,
                    std::uint64_t offset);
  std::uint64_t log_offset_at(std::string_view job, int attempt, std::string_view task,
                              Millis time) const;  // 0: from the beginning

  Database& database();  // for the other tables: tokens.h

 private:
  std::unique_ptr<OpenStore> open_;
};

// Where files lie below the root (default: COHORT_HOME, else XDG_STATE_HOME/cohort, else
// ~/.local/state/cohort).
struct RunFolders {
  std::filesystem::path root;

  std::filesystem::path database() const { return root / "service.sqlite"; }
  std::filesystem::path service_record() const { return root / "service.json"; }
  std::filesystem::path sources() const { return root / "sources"; }
  std::filesystem::path jobs() const { return root / "jobs"; }
  std::filesystem::path job(std::string_view id) const { return jobs() / id; }
  std::filesystem::path output(std::string_view id) const { return job(id) / "output"; }
  std::filesystem::path model(std::string_view id) const { return job(id) / "model"; }
  std::filesystem::path attempt(std::string_view id, int number) const {
    return job(id) / "attempts" / std::to_string(number);
  }
};

}  // namespace cohort::service
