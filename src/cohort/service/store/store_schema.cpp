#include "cohort/service/store/store_schema.h"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr auto kBackupAge = std::chrono::hours(24);

// What each version adds to the one before. Never changed once released: a new version is a new
// step. Times are milliseconds since 1970, UTC; 0: not yet.
constexpr std::array<const char*, kStoreVersion> kSteps = {
    R"sql(
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL,
  engine TEXT NOT NULL, priority INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
  tags TEXT NOT NULL, pinned INTEGER NOT NULL, stop_asked INTEGER NOT NULL,
  resume INTEGER NOT NULL, attempt INTEGER NOT NULL, instances INTEGER NOT NULL,
  wanted_workers INTEGER NOT NULL, exit_code INTEGER, progress REAL, eta INTEGER,
  submitted INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_name ON jobs (name);
CREATE INDEX jobs_unfinished ON jobs (id)
  WHERE state IN ('queued', 'starting', 'running', 'stopping');
-- Apart from the rows that lists read.
CREATE TABLE job_texts (
  job TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  spec TEXT NOT NULL, resolved TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE attempts (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, number INTEGER NOT NULL,
  state TEXT NOT NULL, exit_code INTEGER, failure TEXT NOT NULL, instances INTEGER NOT NULL,
  gpu_indices TEXT NOT NULL, created INTEGER NOT NULL, started INTEGER NOT NULL,
  ended INTEGER NOT NULL, PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE tasks (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, attempt INTEGER NOT NULL,
  place INTEGER NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
  exit_code INTEGER, restarts INTEGER NOT NULL, PRIMARY KEY (job, attempt, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, job TEXT NOT NULL,
  user TEXT NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL
) STRICT;
CREATE INDEX events_job ON events (job);
CREATE INDEX events_user ON events (user);
CREATE TABLE metrics (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  name TEXT NOT NULL, step INTEGER NOT NULL, value REAL, time INTEGER NOT NULL
) STRICT;
CREATE INDEX metrics_job ON metrics (job);
CREATE INDEX metrics_job_name ON metrics (job, name);
CREATE TABLE cursors (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, source TEXT NOT NULL,
  position INTEGER NOT NULL, state TEXT NOT NULL, PRIMARY KEY (job, source)
) STRICT, WITHOUT ROWID;
CREATE TABLE log_marks (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, attempt INTEGER NOT NULL,
  task TEXT NOT NULL, time INTEGER NOT NULL, position INTEGER NOT NULL,
  PRIMARY KEY (job, attempt, task, time)
) STRICT, WITHOUT ROWID;
)sql",
    R"sql(
ALTER TABLE jobs ADD COLUMN request_id TEXT;
ALTER TABLE jobs ADD COLUMN collected INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_uncollected ON jobs (id) WHERE attempt > collected;
CREATE UNIQUE INDEX jobs_request ON jobs (user, request_id) WHERE request_id IS NOT NULL;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, user TEXT NOT NULL, role TEXT NOT NULL,
  created INTEGER NOT NULL, expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE times (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
)sql",
    R"sql(
-- When an attempt began by the machine's own clock, and of which of its starts.
ALTER TABLE attempts ADD COLUMN steady INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN boot TEXT NOT NULL DEFAULT '';
)sql",
    R"sql(
-- Browsers that are signed in (page/sessions.h). token: the digest of the one that they did it with.
CREATE TABLE sessions (
  digest TEXT PRIMARY KEY, token TEXT NOT NULL, user TEXT NOT NULL, role TEXT NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)sql",
};

std::filesystem::path beside(const std::filesystem::path& database, const std::string& ending) {
  return database.string() + ending;
}

std::filesystem::path backup_of(const std::filesystem::path& database, int version) {
  return beside(database, fmt::format(".backup-v{}", version));
}

// SQLite removes the log when the last user closes the file.
bool was_closed_in_order(const std::filesystem::path& database) {
  std::error_code code;
  const auto size = std::filesystem::file_size(beside(database, "-wal"), code);
  return code || size == 0;
}

bool needs_backup(Database& database) {
  std::error_code code;
  const auto time =
      std::filesystem::last_write_time(backup_of(database.path(), kStoreVersion), code);
  if (!code && std::filesystem::file_time_type::clock::now() - time < kBackupAge) return false;
  return database.integer("SELECT EXISTS (SELECT 1 FROM jobs)") != 0;
}

// On a full disk jobs are to be deleted, and for that the service must start.
void take_daily_backup(Database& database) {
  try {
    database.backup(backup_of(database.path(), kStoreVersion));
  } catch (const SystemError& error) {
    log::warning("no backup of '{}' today: {}", database.path().string(), error.message());
  }
}

void migrate(Database& database, int version) {
  if (version > 0) database.backup(backup_of(database.path(), version));
  for (int step = version; step < kStoreVersion; ++step) {
    Transaction transaction(database);
    database.execute(kSteps.at(static_cast<std::size_t>(step)));
    database.execute(fmt::format("PRAGMA user_version = {}", step + 1));
    transaction.commit();
  }
}

UniqueFd open_lock(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw SystemError(fmt::format("cannot open '{}'", path.string()), errno);
  return file;
}

void lock_shared(const UniqueFd& file, const std::filesystem::path& path) {
  while (::flock(file.get(), LOCK_SH) != 0)
    if (errno != EINTR) throw SystemError(fmt::format("cannot lock '{}'", path.string()), errno);
}

UniqueFd open_schema(Database& database) {
  const auto& path = database.path();
  const auto lock_path = beside(path, ".lock");
  UniqueFd lock = open_lock(lock_path);
  const bool first = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  if (!first) lock_shared(lock, lock_path);
  if (first && !was_closed_in_order(path))
    if (const auto found = database.check(); found != "ok")
      throw InvalidInput(fmt::format("'{}' is damaged: {}", path.string(), found),
                         {.advice = damaged_advice(path)});
  const auto version = static_cast<int>(database.integer("PRAGMA user_version"));
  if (version > kStoreVersion)
    throw InvalidInput(
        fmt::format("'{}' has version {}; this program knows versions up to {}", path.string(),
                    version, kStoreVersion),
        {.advice = fmt::format("Use the newer Cohort that wrote it, or go back to the backup that "
                               "it took. {}",
                               damaged_advice(path))});
  if (version < kStoreVersion && !first)
    throw InvalidInput(
        fmt::format("'{}' has version {} and is in use by an older Cohort", path.string(), version),
        {.advice = "Stop the older service, then start this one."});
  if (version < kStoreVersion)
    migrate(database, version);
  else if (first && needs_backup(database))
    take_daily_backup(database);
  if (first) lock_shared(lock, lock_path);
  return lock;
}

}  // namespace

std::string damaged_advice(const std::filesystem::path& database) {
  const auto name = database.filename().string();
  std::string restore;
  for (int version = kStoreVersion; version > 0 && restore.empty(); --version) {
    const auto backup = backup_of(database, version).filename().string();
    if (std::filesystem::exists(backup_of(database, version)))
      restore = fmt::format(" && cp damaged/{} {}", backup, name);
  }
  return fmt::format(
      "{} Stop the service, then: cd {} && mkdir -p damaged && mv {}* damaged/{}",
      restore.empty() ? "There is no backup: jobs begin anew, their folders stay."
                      : "Go on with the backup; later jobs are then unknown, their folders stay.",
      shell_quote(database.parent_path().string()), name, restore);
}

OpenStore::OpenStore(const std::filesystem::path& path)
    : database(path, damaged_advice(path)), in_use(open_schema(database)) {}

}  // namespace cohort::service
