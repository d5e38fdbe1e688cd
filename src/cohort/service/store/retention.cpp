#include "cohort/service/store/retention.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/service/store/remove_job.h"
#include "cohort/service/store/source_store.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr Millis kHourMs = 3600 * Millis{1000};
constexpr Millis kDayMs = 24 * kHourMs;
constexpr Millis kMostAhead = 7 * kDayMs;
constexpr Millis kMostBehind = kHourMs;
constexpr Millis kLeastStay = kDayMs;
constexpr int kDeepestMeasured = 64;  // folders in each other: each takes a descriptor
constexpr std::chrono::milliseconds kPassInterval{kHourMs};

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code code;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, code);
       !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (entry.depth() >= kDeepestMeasured) entry.disable_recursion_pending();
    std::error_code size;
    if (entry->symlink_status(size).type() == fs::file_type::regular)
      bytes += entry->file_size(size);
  }
  return bytes;
}

Millis end_of(const JobRow& job) { return job.ended > 0 ? job.ended : job.submitted; }

std::set<std::string> used_sources(RunStore& store) {
  std::set<std::string> used;
  auto row = store.database().prepare(
      "SELECT DISTINCT json_extract(spec, '$.source') FROM job_texts WHERE json_valid(spec)");
  while (row.step())
    if (!row.is_null(0)) used.insert(row.text(0));
  return used;
}

}  // namespace

Retention::Retention(RunFolders folders, RetentionPolicy policy)
    : folders_(std::move(folders)), policy_(policy) {}

RunStore& Retention::store() {
  // A crash of the machine may bring back a row whose folder is gone: the next pass finds it.
  if (!store_) store_ = std::make_unique<RunStore>(folders_.root, Durability::process_death);
  return *store_;
}

void Retention::start() {
  store();
  thread_.start([this] {
    try {
      pass(utc_now());
    } catch (const std::exception& error) {
      log::warning("retention: {}", error.what());
    }
    return kPassInterval;
  });
}

void Retention::stop() { thread_.stop(); }

Removed Retention::pass(Millis now) {
  Removed removed{.clock_in_doubt = is_clock_in_doubt(now)};
  if (removed.clock_in_doubt) return removed;
  finish_removals(folders_);
  remove_jobs(now, removed);
  remove_sources(now, removed);
  if (policy_.days > 0) store().remove_old_events(now - policy_.days * kDayMs);
  return removed;
}

bool Retention::is_clock_in_doubt(Millis now) {
  auto& database = store().database();
  const auto read = [&](const char* name) {
    auto row = database.prepare("SELECT value FROM times WHERE name = ?1");
    row.bind(name);
    return row.step() ? row.integer(0) : 0;
  };
  const auto write = [&](const char* name, Millis value) {
    database
        .prepare(
            "INSERT INTO times (name, value) VALUES (?1, ?2) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        .bind(name, value)
        .run();
  };
  Transaction transaction(database);
  Millis last = read("retention pass");
  if (last == 0) last = database.integer("SELECT max(time) FROM events");
  const bool jumped = last != 0 && (now > last + kMostAhead || now < last - kMostBehind);
  if (jumped) {
    write("clock jump", now);
    log::warning(
        "the clock jumped by {} hours since jobs were last looked at: none is removed for a day",
        (now - last) / kHourMs);
  }
  write("retention pass", now);
  const Millis jump = read("clock jump");
  const bool in_doubt = jump != 0 && now < jump + kDayMs;
  if (!in_doubt) write("clock jump", 0);
  transaction.commit();
  return in_doubt;
}

// A job's folder does not change after its end: it is measured once.
std::uint64_t Retention::bytes_of(const JobRow& job) {
  CursorRow measured = store().cursor(job.id, "bytes");
  const auto attempt = std::to_string(job.attempt);
  if (measured.state != attempt) {
    measured.position = static_cast<std::int64_t>(bytes_below(folders_.job(job.id)));
    measured.state = attempt;
    store().put_cursor(measured);
  }
  return static_cast<std::uint64_t>(measured.position);
}

bool Retention::remove(const JobRow& job, Removed& removed) {
  try {
    if (!remove_ended_job(store(), folders_, job.id, PinnedJobs::stay)) return false;
    ++removed.jobs;
    return true;
  } catch (const std::exception& error) {
    log::warning("retention of job {}: {}", job.id, error.what());
    return false;
  }
}

void Retention::remove_jobs(Millis now, Removed& removed) {
  std::uint64_t bytes = 0;
  std::vector<std::pair<JobRow, std::uint64_t>> removable;
  auto jobs = store().jobs(
      {.states = {JobState::succeeded, JobState::failed, JobState::stopped}, .limit = 0});
  std::erase_if(jobs, [](const JobRow& job) { return job.pinned; });
  std::sort(jobs.begin(), jobs.end(),
            [](const JobRow& a, const JobRow& b) { return end_of(a) < end_of(b); });
  for (auto& job : jobs) {
    const Millis age = now - end_of(job);
    if (policy_.days > 0 && age > std::max(policy_.days * kDayMs, kLeastStay) &&
        remove(job, removed))
      continue;
    const auto size = policy_.most_bytes > 0 ? bytes_of(job) : 0;
    bytes += size;
    if (age > kLeastStay) removable.emplace_back(std::move(job), size);
  }
  for (const auto& [job, size] : removable) {
    if (policy_.most_bytes == 0 || bytes <= policy_.most_bytes) break;
    if (remove(job, removed)) bytes -= size;
  }
}

void Retention::remove_sources(Millis now, Removed& removed) {
  if (policy_.source_days == 0) return;
  removed.sources = remove_unused_sources(folders_, used_sources(store()), now,
                                          now - policy_.source_days * kDayMs);
}

}  // namespace cohort::service
