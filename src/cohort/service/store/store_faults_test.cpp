// What happens to the run store: kills, damage, full disks, other versions.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/base/text.h"
#include "cohort/service/store/run_store.h"
#include "cohort/service/store/sqlite.h"
#include "cohort/service/store/store_schema.h"
#include "cohort/service/store/tokens.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

JobRow plain_job(const std::string& id) {
  JobRow job;
  job.id = id;
  job.name = "n";
  job.user = "ada";
  job.spec = std::string(1000, 's');
  return job;
}

// Submits jobs and tells of each on the descriptor once it is accepted.
[[noreturn]] void submit_for_ever(const fs::path& root, int round, int fd) {
  RunStore store(root);
  for (int i = 0;; ++i) {
    JobRow job = plain_job(fmt::format("{:03}-{:06}", round, i));
    store.add_job(job);
    const std::string line = job.id + "\n";
    if (::write(fd, line.data(), line.size()) < 0) ::_exit(1);
    job.state = JobState::starting;
    job.attempt = 1;
    store.together([&] {
      store.put_attempt({.job = job.id, .number = 1, .state = "starting"});
      store.update_job(job, JobState::queued, "starting");
    });
  }
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

// Accepted before the kill, as the child told.
std::vector<std::string> submit_and_kill(const fs::path& root, int round,
                                         std::chrono::microseconds after) {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(fds[0]);
    submit_for_ever(root, round, fds[1]);
  }
  ::close(fds[1]);
  char first = 0;
  EXPECT_EQ(::read(fds[0], &first, 1), 1);  // it is at work
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  auto ids = split(std::string(1, first) + read_all(fds[0]), '\n');
  ::close(fds[0]);
  ids.pop_back();  // behind the last line end
  return ids;
}

TEST(StoreFaults, NothingAcceptedIsLostByKills) {
  ScratchFolder root;
  std::mt19937 random(7);
  std::vector<std::string> accepted;
  const int rounds = kSanitized ? 8 : 30;
  for (int round = 0; round < rounds; ++round) {
    const auto ids =
        submit_and_kill(root.path(), round, std::chrono::microseconds(random() % 40'000));
    accepted.insert(accepted.end(), ids.begin(), ids.end());
    RunStore store(root.path());  // checks the file: it was not closed in order
    EXPECT_EQ(store.database().check(), "ok");
    for (const auto& id : ids) EXPECT_TRUE(store.find_job(id)) << id;
  }
  RunStore store(root.path());
  const auto jobs = store.jobs({.limit = 0});
  EXPECT_GE(jobs.size(), accepted.size());
  EXPECT_LE(jobs.size(), accepted.size() + static_cast<std::size_t>(rounds));
  for (const auto& job : jobs) {
    const auto attempts = store.attempts(job.id).size();
    EXPECT_EQ(attempts, job.state == JobState::queued ? 0u : 1u) << job.id;
    EXPECT_EQ(store.events_after(0, job.id, "", 10).size(), attempts + 1) << job.id;
  }
  EXPECT_EQ(store.database().integer("PRAGMA foreign_key_check"), 0);
}

// Version 1 as it was written by its program, with a job in each state of its life.
constexpr const char* kVersion1 = R"sql(
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
INSERT INTO jobs VALUES ('20260101-000000-aaaaaa', 'first', 'ada', 'default', 'local', 5, 'queued',
  'Waits for 2 cores.', '{"t":"1"}', 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, 1000, 0, 0);
INSERT INTO jobs VALUES ('20260102-000000-bbbbbb', 'second', 'bob', 'night', 'local', 0,
  'succeeded', '', '{}', 0, 0, 0, 1, 2, 0, 0, 1.0, NULL, 2000, 3000, 4000);
INSERT INTO job_texts VALUES ('20260101-000000-aaaaaa', '{"name":"first"}', '{}');
INSERT INTO job_texts VALUES ('20260102-000000-bbbbbb', '{"name":"second"}', '{"instances":2}');
INSERT INTO attempts VALUES ('20260102-000000-bbbbbb', 1, 'succeeded', 0, '', 2, '[]', 1, 2, 3);
INSERT INTO events (time, job, user, kind, data) VALUES (1000, '20260101-000000-aaaaaa', 'ada',
  'submitted', '{}');
INSERT INTO metrics (job, name, step, value, time) VALUES ('20260102-000000-bbbbbb', 'loss', 3,
  0.5, 7);
PRAGMA user_version = 1;
)sql";

TEST(StoreFaults, AnOlderVersionIsMigratedAfterABackup) {
  ScratchFolder root;
  const RunFolders folders{root.path()};
  Database(folders.database(), "").execute(kVersion1);
  {
    RunStore store(root.path());
    EXPECT_EQ(store.database().integer("PRAGMA user_version"), kStoreVersion);
    const auto first = store.find_job("20260101-000000-aaaaaa");
    ASSERT_TRUE(first);
    EXPECT_EQ(first->priority, 5);
    EXPECT_EQ(first->request_id, "");
    EXPECT_TRUE(first->pinned);
    const auto second = store.find_job("20260102-000000-bbbbbb");
    EXPECT_EQ(second->resolved, R"({"instances":2})");
    EXPECT_EQ(second->ended, 4000);
    EXPECT_EQ(second->collected, 0);
    EXPECT_EQ(store.attempts(second->id).at(0).instances, 2);
    EXPECT_EQ(store.metrics(second->id, "loss", 0, 10).at(0).value, 0.5);
    EXPECT_EQ(store.last_event(), 1);
    JobRow job = plain_job("c");
    job.request_id = "r";
    store.add_job(job);
    Tokens(store).create("ada", UserRole::user, 1);
  }
  const auto backup = folders.database().string() + ".backup-v1";
  ASSERT_TRUE(fs::exists(backup));
  Database old(backup, "");
  EXPECT_EQ(old.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(old.integer("SELECT count(*) FROM jobs"), 2);
}

TEST(StoreFaults, AStepThatFailsLeavesTheOldVersion) {
  ScratchFolder root;
  const RunFolders folders{root.path()};
  {
    Database database(folders.database(), "");
    database.execute(kVersion1);
    database.execute("CREATE TABLE tokens (x TEXT)");  // in the way of the second step
  }
  EXPECT_THROW(RunStore(root.path()), Error);
  Database database(folders.database(), "");
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(database.integer("SELECT count(*) FROM pragma_table_info('jobs')"), 21);
  EXPECT_EQ(database.integer("SELECT count(*) FROM jobs"), 2);
}

TEST(StoreFaults, ANewerVersionIsRefused) {
  ScratchFolder root;
  RunStore(root.path()).database().execute("PRAGMA user_version = 99");
  EXPECT_THAT(
      message_of<InvalidInput>([&] { RunStore store(root.path()); }),
      AllOf(HasSubstr("service.sqlite' has version 99"), HasSubstr("Use the newer Cohort")));
}

TEST(StoreFaults, TheBackupOfADayIsUsedAsTheMessageSays) {
  ScratchFolder root;
  const RunFolders folders{root.path()};
  RunStore(root.path()).add_job(plain_job("a"));
  RunStore(root.path()).add_job(plain_job("b"));  // takes a backup first: there is a job
  write_file_atomically(folders.database(),
                        "this is no database, but it is long enough to be read");
  const auto message = message_of<InvalidInput>([&] { RunStore store(root.path()); });
  EXPECT_THAT(message, AllOf(HasSubstr("service.sqlite' is damaged"), HasSubstr("backup-v4")));
  const auto command = message.substr(message.find("cd "));
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  RunStore store(root.path());
  EXPECT_TRUE(store.find_job("a"));
  EXPECT_FALSE(store.find_job("b"));
}

TEST(StoreFaults, DamageIsFoundAndNeverCrashes) {
  ScratchFolder root;
  const RunFolders folders{root.path()};
  {
    RunStore store(root.path(), Durability::process_death);
    store.together([&] {
      for (int i = 0; i < 300; ++i) store.add_job(plain_job(fmt::format("job{:03}", i)));
    });
  }
  const std::string good = read_file(folders.database());
  std::mt19937 random(11);
  int refused = 0;
  const int rounds = kSanitized ? 20 : 60;
  for (int round = 0; round < rounds; ++round) {
    std::string bad = good;
    for (int flips = 0; flips < 200; ++flips) bad[random() % bad.size()] ^= static_cast<char>(0x55);
    fs::remove(folders.database().string() + "-wal");
    fs::remove(folders.database().string() + "-shm");
    write_file_atomically(folders.database(), bad);
    // As a service that was killed leaves it: the file is checked.
    write_file_atomically(folders.database().string() + "-wal", std::string(32, '\0'));
    try {
      RunStore store(root.path(), Durability::process_death);
      store.jobs({.limit = 0});
      for (int i = 0; i < 300; ++i) store.find_job(fmt::format("job{:03}", i));
    } catch (const InvalidInput& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("service.sqlite")) << error.what();
    } catch (const Error&) {
      ++refused;  // a schema that makes no sense
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

// In a child whose files hold at most what SQLite needs to open a database: what it returns. 77
// stands for a throw.
template <class Body>
int on_a_full_disk(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{40 * 1024, 40 * 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 77;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StoreFaults, WithoutRoomForABackupTheStoreOpens) {
  ScratchFolder root;
  const RunFolders folders{root.path()};
  { RunStore(root.path()).add_job(plain_job("a")); }
  EXPECT_EQ(on_a_full_disk([&] {
              return RunStore(root.path(), Durability::process_death).find_job("a") ? 0 : 1;
            }),
            0);
  const auto backup = folders.database().string() + ".backup-v2";
  EXPECT_TRUE(!fs::exists(backup) || fs::file_size(backup) == 0);
}

// In a child: the limit on the size of files stands for a disk that is full.
TEST(StoreFaults, AFullDiskIsAnErrorAndLosesNothing) {
  ScratchFolder root;
  RunStore(root.path()).add_job(plain_job("before"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    RunStore store(root.path());
    const rlimit limit{256 * 1024, 256 * 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      for (int i = 0; i < 10'000; ++i) {
        JobRow job = plain_job(fmt::format("j{:05}", i));
        job.spec = std::string(20'000, 's');
        store.add_job(job);
      }
    } catch (const SystemError& error) {
      code = std::string_view(error.what()).find("service.sqlite") != std::string::npos ? 0 : 2;
      try {
        store.jobs({.limit = 0});  // reading goes on
      } catch (...) {
        code = 3;
      }
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  RunStore store(root.path());
  EXPECT_EQ(store.database().check(), "ok");
  EXPECT_TRUE(store.find_job("before"));
  const auto jobs = store.jobs({.limit = 0});
  EXPECT_GT(jobs.size(), 1u);
  for (const auto& job : jobs) EXPECT_EQ(store.events_after(0, job.id, "", 10).size(), 1u);
}

TEST(StoreFaults, AFolderThatOthersMayWriteIsRefused) {
  ScratchFolder root;
  fs::permissions(root.path(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT(message_of<InvalidInput>([&] { RunStore store(root.path()); }),
              HasSubstr("may be written by other users"));
}

}  // namespace
}  // namespace cohort::service
