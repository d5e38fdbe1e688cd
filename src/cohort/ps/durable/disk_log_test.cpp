#include "cohort/ps/durable/disk_log.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/durable/durable_state_test.h"
#include "cohort/ps/durable/log_folder.h"
#include "cohort/ps/durable/log_recovery.h"

namespace cohort::ps {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Numbers = std::vector<std::uint64_t>;

DiskLogOptions options() { return {.server = 0, .servers = DurableState::kServers}; }

DurableState recover(const fs::path& folder) {
  UniqueFd file = DurableState::memory();
  auto state = recover_from_disk(folder, file.get(), DurableState::options());
  return state ? DurableState(std::move(file), std::move(state)) : DurableState::begin();
}

TEST(DiskLog, TheTwoNewestSnapshotsAndTheirLogsAreKept) {
  ScratchFolder folder;
  EventLoop loop;
  DurableState state = DurableState::begin();
  auto log = open_disk_log(loop, folder.path(), options());
  for (int i = 0; i < 4; ++i) {
    save(loop, state, *log);
    train(loop, state, *log, 2);
  }
  LogFolderContents contents = list_log_folder(folder.path());
  EXPECT_EQ(contents.snapshots, (Numbers{3, 4}));
  EXPECT_EQ(contents.logs, (Numbers{3, 4}));
}

TEST(DiskLog, RecordsUnderWayDuringASnapshotAreInOnceAndNotLost) {
  ScratchFolder folder;
  EventLoop loop;
  DurableState state = DurableState::begin();
  auto log = open_disk_log(loop, folder.path(), options());
  save(loop, state, *log);
  bool durable = false, done = false;
  log->append(state.prepare(0), [&] {
    durable = true;
    state.publish(0);
  });
  log->save_snapshot(*state, [&] { done = true; });
  ASSERT_TRUE(run_until(loop, [&] { return durable && done; }));
  train(loop, state, *log, 3);
  log.reset();
  EXPECT_EQ(recover(folder.path()).snapshot(), DurableState::snapshot_after(4));
}

TEST(DiskLog, NothingIsDurableBeforeTheFirstSnapshot) {
  ScratchFolder folder;
  EventLoop loop;
  DurableState state = DurableState::begin();
  auto log = open_disk_log(loop, folder.path(), options());
  bool durable = false, done = false;
  log->append(state.prepare(0), [&] { durable = true; });
  EXPECT_FALSE(run_until(
      loop, [&] { return durable; }, 100ms));
  log->save_snapshot(*state, [&] { done = true; });
  EXPECT_TRUE(run_until(loop, [&] { return durable && done; }));
  log.reset();
  EXPECT_EQ(recover(folder.path()).snapshot(), DurableState::snapshot_after(1));
}

TEST(DiskLog, WantsAnImageOnceTheLogIsLongerThanTwoOfThem) {
  ScratchFolder folder;
  EventLoop loop;
  DurableState state = DurableState::begin();
  auto small = options();
  small.min_log_bytes = 1000;
  auto log = open_disk_log(loop, folder.path(), small);
  save(loop, state, *log);
  const std::uint64_t snapshot = state.snapshot().size();
  std::uint64_t written = 0;
  while (written < 2 * snapshot) {
    EXPECT_FALSE(log->wants_snapshot()) << written << " of " << snapshot;
    train(loop, state, *log, 1);
    written = fs::file_size(log_path(folder.path(), 1));
  }
  train(loop, state, *log, 1);
  EXPECT_TRUE(log->wants_snapshot());
  save(loop, state, *log);
  EXPECT_FALSE(log->wants_snapshot());
}

TEST(DiskLog, AFolderThatCannotBeWrittenOrIsInUseIsRefusedByName) {
  ScratchFolder folder;
  EventLoop loop;
  std::ofstream(folder / "file") << "x";
  std::string said =
      message_of<InvalidInput>([&] { open_disk_log(loop, folder / "file/below", options()); });
  EXPECT_NE(said.find((folder / "file/below").string()), said.npos) << said;
  auto log = open_disk_log(loop, folder / "used", options());
  said = message_of<InvalidInput>([&] { open_disk_log(loop, folder / "used", options()); });
  EXPECT_NE(said.find("in use by another"), said.npos) << said;
}

struct Acknowledged {
  std::size_t target = 0;
  std::uint64_t version = 0;
};

// A server that trains until it is killed, with an update of every target under way, and says
// through `pipe` what is durable.
[[noreturn]] void serve(const fs::path& folder, int pipe) {
  EventLoop loop;
  DurableState state = recover(folder);
  auto often = options();
  often.min_log_bytes = 64 << 10;
  auto log = open_disk_log(loop, folder, often);
  if (state.updates() == 0) save(loop, state, *log);
  int under_way = 0;
  std::function<void(int)> update = [&](int target) {
    ++under_way;
    log->append(state.prepare(target), [&, target] {
      --under_way;
      state.publish(target);
      auto which = static_cast<std::size_t>(target);
      Acknowledged said{which, state.versions()[which]};
      if (::write(pipe, &said, sizeof said) != sizeof said) ::_exit(1);
      if (!log->wants_snapshot()) return update(target);
      if (under_way > 0) return;
      log->save_snapshot(*state, [] {});
      for (int next = 0; next < DurableState::kTargets; ++next) update(next);
    });
  };
  for (int target = 0; target < DurableState::kTargets; ++target) update(target);
  loop.run();
  ::_exit(1);
}

TEST(DiskLog, WhatWasAcknowledgedSurvivesAKillAtAnyInstantOnce) {
  ScratchFolder folder;
  std::mt19937 random(5);
  DurableState::Versions acknowledged(DurableState::kTargets);
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_t child = ::fork();
    if (child == 0) serve(folder.path(), ends[1]);
    ::close(ends[1]);
    Acknowledged one;
    auto next = [&] {
      if (::read(ends[0], &one, sizeof one) != sizeof one) return false;
      acknowledged[one.target] = one.version;
      return true;
    };
    for (unsigned count = 1 + random() % 200; count > 0 && next();) --count;
    ::usleep(random() % 10000);  // into the middle of what comes next
    ::kill(child, SIGKILL);
    while (next()) {
    }
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    DurableState state = recover(folder.path());
    const auto versions = state.versions();
    for (std::size_t target = 0; target < versions.size(); ++target) {
      ASSERT_GE(versions[target], acknowledged[target]) << "round " << round;
      ASSERT_LE(versions[target], acknowledged[target] + 1) << "round " << round;
    }
    ASSERT_EQ(state.snapshot(), DurableState::snapshot_of(versions)) << "round " << round;
    acknowledged = versions;
  }
}

// Mounts a small file system that only this thread and those it starts see.
bool mount_small(const fs::path& folder) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

void train_on_a_full_disk(const fs::path& folder) {
  EventLoop loop;
  DurableState state = DurableState::begin();
  auto soon = options();
  soon.retry = 20ms;
  auto log = open_disk_log(loop, folder, soon);
  save(loop, state, *log);
  const fs::path filler = folder / "filler";
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string some(64 << 10, 'x');
    while (fs::space(folder).available > (300 << 10) && file.write(some.data(), 64 << 10).flush()) {
    }
  }
  testing::internal::CaptureStderr();
  bool durable = true;
  int durable_ones = 0;
  while (durable && durable_ones < 500) {
    durable = false;
    log->append(state.prepare(state.next_target()), [&] { durable = true; });
    if (run_until(
            loop, [&] { return durable; }, 1000ms)) {
      state.publish(state.next_target());
      ++durable_ones;
    }
  }
  EXPECT_FALSE(durable) << "the disk never was full";
  fs::remove(filler);
  EXPECT_TRUE(run_until(
      loop, [&] { return durable; }, 5000ms));
  state.publish(state.next_target());
  train(loop, state, *log, 2);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(fmt::format("cannot write the log in '{}' (", folder.string())), said.npos)
      << said;
  EXPECT_NE(said.find(std::strerror(ENOSPC)), said.npos) << said;
  EXPECT_NE(said.find("can be written again"), said.npos) << said;
  log.reset();
  EXPECT_EQ(recover(folder).snapshot(),
            DurableState::snapshot_after(static_cast<std::uint64_t>(durable_ones) + 3));
}

TEST(DiskLog, AFullDiskDelaysAndLosesNothing) {
  ScratchFolder folder;
  bool mounted = false;
  std::thread([&] {
    mounted = mount_small(folder.path());
    if (mounted) train_on_a_full_disk(folder.path());
  }).join();
  if (!mounted)
    GTEST_SKIP() << "no file system of its own without privileges: " << std::strerror(errno);
}

}  // namespace
}  // namespace cohort::ps
