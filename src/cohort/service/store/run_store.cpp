#include "cohort/service/store/run_store.h"

#include <sys/stat.h>

#include <chrono>

#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"
#include "cohort/service/store/store_schema.h"

namespace cohort::service {
namespace {

// In the order of job_of(). Those of job_texts follow where they are asked for.
const std::string kJobColumns =
    "id, name, user, queue, engine, priority, state, reason, tags, pinned, stop_asked, resume, "
    "attempt, instances, wanted_workers, exit_code, progress, eta, submitted, started, ended, "
    "coalesce(request_id, ''), collected";
constexpr int kTextColumn = 23;

// As the index says it.
const std::string kUnfinished = "state IN ('queued', 'starting', 'running', 'stopping')";

const std::string kWholeJobs =
    "SELECT " + kJobColumns + ", spec, resolved FROM jobs JOIN job_texts ON job = id ";
const std::string kFindJob = kWholeJobs + "WHERE id = ?1";
const std::string kFindRequest = kWholeJobs + "WHERE user = ?1 AND request_id = ?2";
const std::string kUnfinishedJobs = kWholeJobs + "WHERE " + kUnfinished + " ORDER BY id";

// As the index says it.
const std::string kUncollectedJobs =
    "SELECT " + kJobColumns + " FROM jobs WHERE attempt > collected ORDER BY id";

// ?1 before, ?2 user, ?3 queue, ?4 name, ?5 ",state,state,", ?6 tag's key, ?7 its value, ?8 limit,
// ?9 text in lower case
std::string list_jobs(const std::string& condition) {
  return "SELECT " + kJobColumns + " FROM jobs WHERE " + condition +
         "id < ?1 AND (?2 = '' OR user = ?2) AND (?3 = '' OR queue = ?3) "
         "AND (?4 = '' OR instr(name, ?4)) AND (?5 = '' OR instr(?5, ',' || state || ',')) "
         "AND (?6 = '' OR EXISTS (SELECT 1 FROM json_each(tags) WHERE key = ?6 "
         "AND (?7 IS NULL OR value = ?7))) "
         "AND (?9 = '' OR instr(lower(id), ?9) OR instr(lower(name), ?9) "
         "OR instr(lower(user), ?9) OR (tags <> '{}' AND EXISTS (SELECT 1 FROM json_each(tags) "
         "WHERE instr(lower(key), ?9) OR instr(lower(value), ?9)))) "
         "ORDER BY id DESC LIMIT ?8";
}
const std::string kListJobs = list_jobs("");
const std::string kListUnfinished = list_jobs(kUnfinished + " AND ");

constexpr std::string_view kBehindAll = "\U0010FFFF";  // sorts behind every id

JobRow job_of(const Statement& row) {
  JobRow job;
  job.id = row.text(0);
  job.name = row.text(1);
  job.user = row.text(2);
  job.queue = row.text(3);
  job.engine = row.text(4);
  job.priority = static_cast<int>(row.integer(5));
  const auto state = job_state_of(row.text(6));
  if (!state)
    throw InvalidInput(fmt::format("the run store (service.sqlite) is damaged: job {} is '{}'",
                                   escape_controls(job.id), escape_controls(row.text(6))));
  job.state = *state;
  job.reason = row.text(7);
  job.tags = row.text(8);
  job.pinned = row.integer(9) != 0;
  job.stop_asked = row.integer(10) != 0;
  job.resume = row.integer(11) != 0;
  job.attempt = static_cast<int>(row.integer(12));
  job.instances = static_cast<int>(row.integer(13));
  job.wanted_workers = static_cast<int>(row.integer(14));
  if (!row.is_null(15)) job.exit_code = static_cast<int>(row.integer(15));
  if (!row.is_null(16)) job.progress = row.number(16);
  if (!row.is_null(17)) job.eta = row.integer(17);
  job.submitted = row.integer(18);
  job.started = row.integer(19);
  job.ended = row.integer(20);
  job.request_id = row.text(21);
  job.collected = static_cast<int>(row.integer(22));
  return job;
}

JobRow whole_job_of(const Statement& row) {
  JobRow job = job_of(row);
  job.spec = row.text(kTextColumn);
  job.resolved = row.text(kTextColumn + 1);
  return job;
}

std::optional<JobRow> first_job(Statement statement) {
  if (!statement.step()) return std::nullopt;
  return whole_job_of(statement);
}

// The ids that the statement gives, five at most.
std::vector<std::string> ids_of(Statement statement) {
  std::vector<std::string> ids;
  while (statement.step()) ids.push_back(statement.text(0));
  return ids;
}

// As SQLite's lower(): ASCII's letters.
std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

void make_root(const std::filesystem::path& root) {
  std::error_code code;
  std::filesystem::create_directories(std::filesystem::absolute(root).parent_path(), code);
  ::mkdir(root.c_str(), 0700);  // the next line tells whether it is there
  make_own_folder(root);
}

}  // namespace

Millis utc_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

RunStore::RunStore(const std::filesystem::path& root, Durability durability) {
  make_root(root);
  open_ = std::make_unique<OpenStore>(RunFolders{root}.database());
  // With FULL, a commit is on the disk when it returns; with NORMAL, a crash of the machine may
  // take the last ones back, as a whole.
  open_->database.execute(durability == Durability::power_loss ? "PRAGMA synchronous = FULL"
                                                               : "PRAGMA synchronous = NORMAL");
}

RunStore::~RunStore() = default;

Database& RunStore::database() { return open_->database; }

void RunStore::together(const std::function<void()>& changes) {
  Transaction transaction(open_->database);
  changes();
  transaction.commit();
}

void RunStore::add_job(const JobRow& job) {
  Transaction transaction(open_->database);
  open_->database
      .prepare(
          "INSERT INTO jobs (id, name, user, queue, engine, priority, state, reason, tags, "
          "pinned, stop_asked, resume, attempt, instances, wanted_workers, exit_code, "
          "progress, eta, submitted, started, ended, request_id) VALUES (?1, ?2, ?3, ?4, ?5, "
          "?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, "
          "nullif(?22, '')) ON CONFLICT DO NOTHING")
      .bind(job.id, job.name, job.user, job.queue, job.engine, job.priority, name_of(job.state),
            job.reason, job.tags.empty() ? "{}" : job.tags, job.pinned, job.stop_asked, job.resume,
            job.attempt, job.instances, job.wanted_workers, job.exit_code, job.progress, job.eta,
            job.submitted, job.started, job.ended, job.request_id)
      .run();
  if (open_->database.changes() == 0)
    throw InvalidInput(fmt::format("there is a job with the id '{}' or the request id '{}' already",
                                   job.id, job.request_id));
  open_->database.prepare("INSERT INTO job_texts (job, spec, resolved) VALUES (?1, ?2, ?3)")
      .bind(job.id, job.spec, job.resolved)
      .run();
  add_event(job.id, "submitted", "{}");
  transaction.commit();
}

std::optional<JobRow> RunStore::find_job(std::string_view id) const {
  return first_job(std::move(open_->database.prepare(kFindJob.c_str()).bind(id)));
}

std::optional<JobRow> RunStore::find_by_request(std::string_view user,
                                                std::string_view request_id) const {
  return first_job(std::move(open_->database.prepare(kFindRequest.c_str()).bind(user, request_id)));
}

JobRow RunStore::job_named(std::string_view id_or_name) const {
  if (auto job = find_job(id_or_name)) return *job;
  auto found = ids_of(std::move(
      open_->database.prepare("SELECT id FROM jobs WHERE name = ?1 ORDER BY id DESC LIMIT 5")
          .bind(id_or_name)));
  if (found.empty() && !id_or_name.empty())
    found = ids_of(std::move(open_->database
                                 .prepare("SELECT id FROM jobs WHERE id >= ?1 AND id < ?1 || ?2 "
                                          "ORDER BY id DESC LIMIT 5")
                                 .bind(id_or_name, kBehindAll)));
  if (found.empty())
    throw NoSuchJob(fmt::format("there is no job '{}'", escape_controls(id_or_name)),
                    {.advice = "`cohort jobs` lists them."});
  if (found.size() > 1)
    throw AmbiguousJob(fmt::format("'{}' may mean several jobs: {}", escape_controls(id_or_name),
                                   join(found, ", ")),
                       {.advice = "Give more of the id."});
  auto job = find_job(found.front());
  if (!job) throw NoSuchJob(fmt::format("job '{}' was deleted just now", found.front()));
  return *job;
}

std::vector<JobRow> RunStore::jobs(const JobFilter& filter) const {
  std::string states = filter.states.empty() ? "" : ",";
  bool unfinished = !filter.states.empty();
  for (const JobState state : filter.states) {
    states += fmt::format("{},", name_of(state));
    unfinished = unfinished && !has_ended(state);
  }
  const auto equals = filter.tag.find('=');
  const auto value =
      equals == std::string::npos ? std::nullopt : std::optional(filter.tag.substr(equals + 1));
  auto row = open_->database.prepare((unfinished ? kListUnfinished : kListJobs).c_str());
  row.bind(filter.before.empty() ? kBehindAll : std::string_view(filter.before), filter.user,
           filter.queue, filter.name, states, filter.tag.substr(0, equals), value,
           filter.limit > 0 ? filter.limit : -1, in_lower_case(filter.text));
  std::vector<JobRow> jobs;
  while (row.step()) jobs.push_back(job_of(row));
  return jobs;
}

std::vector<JobRow> RunStore::unfinished_jobs() const {
  auto row = open_->database.prepare(kUnfinishedJobs.c_str());
  std::vector<JobRow> jobs;
  while (row.step()) jobs.push_back(whole_job_of(row));
  return jobs;
}

std::vector<JobRow> RunStore::uncollected_jobs() const {
  auto row = open_->database.prepare(kUncollectedJobs.c_str());
  std::vector<JobRow> jobs;
  while (row.step()) jobs.push_back(job_of(row));
  return jobs;
}

bool RunStore::update_job(const JobRow& job, JobState expected, std::string_view event_kind,
                          std::string_view event_data) {
  const bool resumed = has_ended(expected) && !has_ended(job.state);
  Transaction transaction(open_->database);
  open_->database
      .prepare(
          "UPDATE jobs SET name = ?3, queue = ?4, engine = ?5, priority = ?6, state = ?7, "
          "reason = ?8, resume = ?9, attempt = ?10, instances = ?11, exit_code = ?12, "
          "started = ?13, ended = ?14, "
          "stop_asked = CASE WHEN ?15 THEN ?16 ELSE max(stop_asked, ?16) END, "
          "wanted_workers = CASE WHEN ?15 THEN ?17 ELSE wanted_workers END, "
          "progress = CASE WHEN ?15 THEN NULL WHEN ?7 = 'succeeded' THEN 1.0 "
          "ELSE progress END, "
          "eta = CASE WHEN ?15 OR ?18 THEN NULL ELSE eta END "
          "WHERE id = ?1 AND state = ?2")
      .bind(job.id, name_of(expected), job.name, job.queue, job.engine, job.priority,
            name_of(job.state), job.reason, job.resume, job.attempt, job.instances, job.exit_code,
            job.started, job.ended, resumed, job.stop_asked, job.wanted_workers,
            has_ended(job.state))
      .run();
  if (open_->database.changes() == 0) return false;
  // A row of a list has none.
  if (!job.resolved.empty())
    open_->database.prepare("UPDATE job_texts SET resolved = ?2 WHERE job = ?1 AND resolved <> ?2")
        .bind(job.id, job.resolved)
        .run();
  if (!event_kind.empty()) add_event(job.id, event_kind, event_data.empty() ? "{}" : event_data);
  transaction.commit();
  return true;
}

bool RunStore::ask_stop(std::string_view id) {
  open_->database.prepare("UPDATE jobs SET stop_asked = 1 WHERE id = ?1").bind(id).run();
  return open_->database.changes() > 0;
}

bool RunStore::ask_scale(std::string_view id, int workers) {
  open_->database.prepare("UPDATE jobs SET wanted_workers = ?2 WHERE id = ?1")
      .bind(id, workers)
      .run();
  return open_->database.changes() > 0;
}

bool RunStore::set_pinned(std::string_view id, bool pinned) {
  open_->database.prepare("UPDATE jobs SET pinned = ?2 WHERE id = ?1").bind(id, pinned).run();
  return open_->database.changes() > 0;
}

bool RunStore::set_progress(std::string_view id, std::optional<double> progress,
                            std::optional<Millis> eta) {
  open_->database
      .prepare(
          "UPDATE jobs SET progress = ?2, eta = ?3 WHERE id = ?1 AND "
          "state IN ('queued', 'starting', 'running', 'stopping')")
      .bind(id, progress, eta)
      .run();
  return open_->database.changes() > 0;
}

bool RunStore::set_collected(std::string_view id, int attempt) {
  open_->database.prepare("UPDATE jobs SET collected = ?2 WHERE id = ?1").bind(id, attempt).run();
  return open_->database.changes() > 0;
}

void RunStore::remove_job(std::string_view id) {
  Transaction transaction(open_->database);
  if (!find_job(id)) return;
  add_event(id, "deleted", "{}");
  open_->database.prepare("DELETE FROM jobs WHERE id = ?1").bind(id).run();
  transaction.commit();
}

}  // namespace cohort::service
