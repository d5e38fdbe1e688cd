#include "cohort/service/store/retention.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/service/store/remove_job.h"
#include "cohort/service/store/remove_tree.h"
#include "cohort/service/store/source_store.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr Millis kHour = 3600 * Millis{1000};
constexpr Millis kDay = 24 * kHour;

class RetentionTest : public ::testing::Test {
 protected:
  // One that ended so many days ago, with so many bytes.
  void add(const std::string& id, double days, std::size_t bytes = 10,
           JobState state = JobState::succeeded, const std::string& source = "") {
    JobRow job;
    job.id = id;
    job.state = state;
    job.submitted = now_ - static_cast<Millis>(days * kDay);
    job.ended = has_ended(state) ? job.submitted : 0;
    job.spec = source.empty() ? "{}" : fmt::format(R"({{"source":"{}"}})", source);
    store_.add_job(job);
    fs::create_directories(folders_.output(id));
    write_file_atomically(folders_.output(id) / "data", std::string(bytes, 'x'));
  }
  bool has(const std::string& id) {
    const bool row = store_.find_job(id).has_value();
    EXPECT_EQ(row, fs::exists(folders_.job(id))) << id;
    return row;
  }
  Removed pass(RetentionPolicy policy = {.days = 30}) {
    return Retention(folders_, policy).pass(now_);
  }

  ScratchFolder root_;
  RunFolders folders_{root_.path()};
  RunStore store_{root_.path(), Durability::process_death};
  Millis now_ = utc_now();
};

TEST_F(RetentionTest, RemovesWhatIsOldUnlessItIsPinnedOrRuns) {
  add("old", 31);
  add("young", 29);
  add("pinned", 100);
  store_.set_pinned("pinned", true);
  add("runs", 100, 10, JobState::running);
  EXPECT_EQ(pass().jobs, 1);
  EXPECT_FALSE(has("old"));
  EXPECT_TRUE(has("young"));
  EXPECT_TRUE(has("pinned"));
  EXPECT_TRUE(has("runs"));
  EXPECT_EQ(store_.events_after(0, "old", "", 10).back().kind, "deleted");
  add("older", 1000);
  EXPECT_EQ(pass({.days = 0}).jobs, 0);
}

TEST_F(RetentionTest, RemovesNoJobUnlessAPersonSaidSo) {
  add("old", 3650, 100'000);
  EXPECT_EQ(pass({}).jobs, 0);
  EXPECT_TRUE(has("old"));
}

TEST_F(RetentionTest, RemovesTheOldestWhileAllTakeTooMuch) {
  add("c", 2, 4000);
  add("a", 4, 4000);
  add("b", 3, 4000);
  add("new", 0.5, 100'000);
  add("pinned", 9, 100'000);
  store_.set_pinned("pinned", true);
  EXPECT_EQ(pass({.most_bytes = 108'000}).jobs, 1);
  EXPECT_FALSE(has("a"));
  EXPECT_TRUE(has("b"));
  EXPECT_EQ(pass({.most_bytes = 108'000}).jobs, 0);
  EXPECT_EQ(pass({.most_bytes = 1000}).jobs, 2);
  EXPECT_TRUE(has("new"));
  EXPECT_TRUE(has("pinned"));
  EXPECT_EQ(pass({.most_bytes = 0}).jobs, 0);
}

TEST_F(RetentionTest, AClockThatJumpsCostsNothing) {
  add("a", 1);
  add("b", 31);
  EXPECT_EQ(pass({.days = 0}).jobs, 0);  // a first pass, with the right clock
  const Millis right = now_;
  now_ += 3650 * kDay;
  EXPECT_TRUE(pass().clock_in_doubt);
  store_.add_event("a", "note", "{}");
  now_ += 23 * kHour;
  EXPECT_TRUE(pass().clock_in_doubt);
  now_ = right + kHour;  // put right
  EXPECT_TRUE(pass().clock_in_doubt);
  EXPECT_TRUE(has("a"));
  EXPECT_TRUE(has("b"));
  for (int hour = 0; hour < 23; ++hour) {
    now_ += kHour;
    EXPECT_TRUE(pass().clock_in_doubt);
  }
  now_ += kHour;
  EXPECT_EQ(pass().jobs, 1);
  EXPECT_TRUE(has("a"));
  EXPECT_FALSE(has("b"));
}

TEST_F(RetentionTest, BeforeTheFirstPassTheNewestEventTellsTheTime) {
  add("a", 1);
  now_ += 40 * kDay;  // the machine was off, or its clock is wrong
  EXPECT_TRUE(pass().clock_in_doubt);
  now_ += 2 * kDay;
  EXPECT_EQ(pass().jobs, 1);
}

TEST_F(RetentionTest, FinishesWhatAKillLeft) {
  add("a", 31);
  add("b", 31);
  fs::remove_all(folders_.job("a"));  // killed before the row was deleted
  fs::create_directories(folders_.jobs() / ".removed-x" / "deep");
  fs::permissions(folders_.jobs() / ".removed-x", fs::perms::owner_read);
  EXPECT_EQ(pass().jobs, 2);
  EXPECT_TRUE(fs::is_empty(folders_.jobs()));
  EXPECT_TRUE(store_.jobs({}).empty());
}

TEST_F(RetentionTest, AJobThatWasResumedOrPinnedMeanwhileStays) {
  add("a", 31, 10, JobState::queued);
  EXPECT_FALSE(remove_ended_job(store_, folders_, "a", PinnedJobs::go));
  add("b", 31);
  store_.set_pinned("b", true);
  EXPECT_FALSE(remove_ended_job(store_, folders_, "b", PinnedJobs::stay));
  EXPECT_TRUE(has("a"));
  EXPECT_TRUE(has("b"));
  EXPECT_TRUE(remove_ended_job(store_, folders_, "b", PinnedJobs::go));
  EXPECT_FALSE(has("b"));
  EXPECT_FALSE(remove_ended_job(store_, folders_, "b", PinnedJobs::go));
}

TEST_F(RetentionTest, RemovesSourcesThatNoJobHas) {
  const std::string used(64, 'a'), unused(64, 'b'), fresh(64, 'c');
  add("job", 20, 10, JobState::succeeded, used);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24 * 8);
  for (const auto& source : {used, unused, fresh}) {
    fs::create_directories(folders_.sources() / source / "deep");
    write_file_atomically(folders_.sources() / source / "deep" / "file", "x");
    write_file_atomically(folders_.sources() / (source + ".tar.gz"), "x");
    fs::permissions(folders_.sources() / source / "deep", fs::perms::owner_read);
    fs::permissions(folders_.sources() / source, fs::perms::owner_read | fs::perms::owner_exec);
    if (source == fresh) continue;
    fs::last_write_time(folders_.sources() / source, long_ago);
    fs::last_write_time(folders_.sources() / (source + ".tar.gz"), long_ago);
  }
  write_file_atomically(folders_.sources() / "note", "not a source");
  fs::last_write_time(folders_.sources() / "note", long_ago);
  EXPECT_EQ(pass().sources, 2);
  EXPECT_TRUE(fs::exists(folders_.sources() / used));
  EXPECT_TRUE(fs::exists(folders_.sources() / (used + ".tar.gz")));
  EXPECT_FALSE(fs::exists(folders_.sources() / unused));
  EXPECT_FALSE(fs::exists(folders_.sources() / (unused + ".tar.gz")));
  EXPECT_TRUE(fs::exists(folders_.sources() / fresh));
  EXPECT_TRUE(fs::exists(folders_.sources() / "note"));
  store_.remove_job("job");
  EXPECT_EQ(pass().sources, 0);  // it was in use a moment ago
}

// A client was told that it is there, and submits the job next.
TEST_F(RetentionTest, ASourceThatWasAskedForStays) {
  const std::string asked(64, 'a'), unpacked(64, 'b');
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24 * 8);
  fs::create_directories(folders_.sources() / unpacked);
  write_file_atomically(source_file(folders_, asked), "x");
  fs::last_write_time(source_file(folders_, asked), long_ago);
  fs::last_write_time(folders_.sources() / unpacked, long_ago);
  EXPECT_TRUE(use_source(folders_, asked));
  EXPECT_EQ(unpacked_source(folders_, unpacked), folders_.sources() / unpacked);
  EXPECT_EQ(pass().sources, 0);
  EXPECT_FALSE(use_source(folders_, std::string(64, 'c')));
}

TEST_F(RetentionTest, LeavesNoPartsOfSources) {
  const fs::path left = folders_.sources() / (".removed-" + std::string(64, 'a'));
  const fs::path unpacking = folders_.sources() / (std::string(64, 'b') + ".Xy12ab");
  const fs::path being_unpacked = folders_.sources() / (std::string(64, 'c') + ".Xy12ab");
  for (const auto& folder : {left, unpacking, being_unpacked}) fs::create_directories(folder);
  fs::last_write_time(unpacking, fs::file_time_type::clock::now() - std::chrono::hours(25));
  EXPECT_EQ(pass().sources, 0);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(unpacking));
  EXPECT_TRUE(fs::exists(being_unpacked));
}

// Each folder would take a descriptor, or a longer path.
TEST(RemoveTree, GoesHoweverDeepItIs) {
  const ScratchFolder scratch;
  const fs::path top = scratch.path() / "top";
  fs::create_directory(top);
  int at = ::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(::mkdirat(at, "d", 0700), 0);
    ASSERT_EQ(::symlinkat("/etc", at, "link"), 0);
    const int next = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (i % 100 == 0) ::fchmod(at, 0500);
    ::close(at);
    at = next;
  }
  ::close(at);
  remove_tree(top);
  EXPECT_FALSE(fs::exists(top));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
  remove_tree(top);
  write_file_atomically(top, "a file");
  remove_tree(top);
  EXPECT_FALSE(fs::exists(top));
}

// Root may do anything; others cannot remove what lies in a folder that is closed to writers.
TEST_F(RetentionTest, AnyUserRemovesTheirReadOnlySources) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const ScratchFolder scratch;
  const RunFolders folders{scratch.path() / "home"};
  fs::create_directories(scratch.path() / "program" / "deep" / "deeper");
  write_file_atomically(scratch.path() / "program" / "deep" / "deeper" / "main.py", "pass");
  const auto packed = jobspec::pack_source(scratch.path() / "program");
  fs::permissions(scratch.path(), fs::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    int left = 8;
    try {
      fs::create_directories(folders.sources());
      write_file_atomically(source_file(folders, packed.id), packed.archive);
      unpacked_source(folders, packed.id);
      remove_unused_sources(folders, {}, now_ + 2 * kDay, now_ + kDay);
      left = fs::is_empty(folders.sources()) ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    ::_exit(left);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RetentionTest, HasAThread) {
  Retention retention(folders_, {});
  retention.start();
  retention.stop();
}

}  // namespace
}  // namespace cohort::service
