#include "cohort/ps/durable/log_recovery.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/durable/disk_log.h"
#include "cohort/ps/durable/durable_state_test.h"
#include "cohort/ps/durable/log_file.h"
#include "cohort/ps/durable/log_folder.h"

namespace cohort::ps {
namespace {

namespace fs = std::filesystem;

class LogRecovery : public testing::Test {
 protected:
  DiskLogOptions options() const { return {.server = 0, .servers = DurableState::kServers}; }

  // A training of `updates`, with snapshots at the beginning and after those given.
  void write(int updates, const std::vector<int>& snapshots = {}) {
    DurableState state = DurableState::begin();
    auto log = open_disk_log(loop_, folder(), options());
    save(loop_, state, *log);
    for (int i = 0; i < updates; ++i) {
      train(loop_, state, *log, 1);
      for (int at : snapshots)
        if (at == i + 1) save(loop_, state, *log);
    }
  }

  DurableState recover() {
    UniqueFd file = DurableState::memory();
    auto state = recover_from_disk(folder(), file.get(), DurableState::options());
    if (!state) throw Error("nothing to recover");
    return DurableState(std::move(file), std::move(state));
  }
  std::string recovery_error() {
    return message_of<Error>([&] { recover(); });
  }

  static void flip(const fs::path& path, std::uint64_t place) {
    std::string bytes = read_file(path);
    bytes.at(place) = static_cast<char>(bytes[place] ^ 4);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Where the records of a log begin, and its end.
  static std::vector<std::uint64_t> places(const fs::path& path) {
    LogReader log(path);
    std::vector<std::uint64_t> places{log.offset()};
    while (log.next()) places.push_back(log.offset());
    return places;
  }
  fs::path folder() const { return scratch_ / "ps-0"; }
  fs::path log(std::uint64_t number) const { return log_path(folder(), number); }

  ScratchFolder scratch_;
  EventLoop loop_;
};

TEST_F(LogRecovery, AFolderWithoutAnythingGivesNothing) {
  UniqueFd file = DurableState::memory();
  EXPECT_FALSE(recover_from_disk(folder(), file.get(), DurableState::options()));
  fs::create_directories(folder());
  EXPECT_FALSE(recover_from_disk(folder(), file.get(), DurableState::options()));
}

TEST_F(LogRecovery, TheStateIsThatOfATrainingWithoutFailure) {
  write(7);
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(7));
}

TEST_F(LogRecovery, TrainingGoesOnAfterEachRecovery) {
  write(3);
  for (int round = 1; round <= 3; ++round) {
    DurableState state = recover();
    ASSERT_EQ(state.updates(), 3u * static_cast<unsigned>(round));
    auto log = open_disk_log(loop_, folder(), options());
    train(loop_, state, *log, 3);
    if (round == 2) save(loop_, state, *log);
  }
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(12));
}

TEST_F(LogRecovery, ALastRecordThatIsCutOffOrDamagedAnywhereIsDropped) {
  write(3);
  const auto at = places(log(1));
  ASSERT_EQ(at.size(), 4u);
  const std::string whole = read_file(log(1));
  const std::string expected = DurableState::snapshot_after(2);
  // Every byte of what comes before the rows, then some.
  for (std::uint64_t place = at[2]; place < at[3]; place += place < at[2] + 80 ? 1 : 17) {
    for (bool cut : {true, false}) {
      std::ofstream(log(1), std::ios::binary) << (cut ? whole.substr(0, place) : whole);
      if (!cut) flip(log(1), place);
      testing::internal::CaptureStderr();
      DurableState state = recover();
      std::string said = testing::internal::GetCapturedStderr();
      ASSERT_EQ(state.snapshot(), expected) << place;
      ASSERT_EQ(fs::file_size(log(1)), at[2]);
      if (cut && place == at[2]) continue;  // nothing of it is there
      EXPECT_NE(said.find(fmt::format("damaged at byte {}: dropped {} bytes", at[2],
                                      cut ? place - at[2] : at[3] - at[2])),
                said.npos)
          << said;
    }
  }
}

TEST_F(LogRecovery, DamageWithGoodRecordsBehindIsAnErrorThatNamesThePlace) {
  write(4);
  const auto at = places(log(1));
  flip(log(1), at[1] + 50);
  std::string said = recovery_error();
  EXPECT_NE(said.find(fmt::format("'{}' is damaged at byte {}", log(1).string(), at[1])), said.npos)
      << said;
  EXPECT_NE(said.find("truncate"), said.npos) << said;
  fs::resize_file(log(1), at[1]);
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(1)) << "as advised";
}

TEST_F(LogRecovery, DamageInALogThatIsNotTheLastIsAnError) {
  write(2);
  {
    DurableState state = recover();
    auto next = open_disk_log(loop_, folder(), options());
    train(loop_, state, *next, 1);
  }
  flip(log(1), places(log(1))[1] + 50);
  EXPECT_NE(recovery_error().find(log(1).string()), std::string::npos);
}

TEST_F(LogRecovery, ASnapshotWhoseLogWasNotBegunIsEnough) {
  write(6, {2, 4});
  fs::remove(log(3));
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(4));
}

TEST_F(LogRecovery, AMissingLogBeforeAnotherIsAnError) {
  write(4, {2});
  flip(snapshot_path(folder(), 2), 200);
  fs::remove(log(1));
  EXPECT_NE(recovery_error().find(fmt::format("'{}' is missing", log(1).string())),
            std::string::npos);
}

TEST_F(LogRecovery, ADamagedSnapshotIsReplacedByTheOneBeforeAndItsLog) {
  write(5, {3});
  const std::string whole = read_file(snapshot_path(folder(), 2));
  const fs::path snapshot = snapshot_path(folder(), 2);
  for (std::uint64_t place : {std::uint64_t{3}, std::uint64_t{70}, std::uint64_t{whole.size() / 2},
                              std::uint64_t{whole.size() - 1}}) {
    for (bool cut : {true, false}) {
      std::ofstream(snapshot, std::ios::binary) << (cut ? whole.substr(0, place) : whole);
      if (!cut) flip(snapshot, place);
      testing::internal::CaptureStderr();
      EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(5));
      EXPECT_NE(testing::internal::GetCapturedStderr().find(snapshot.string()), std::string::npos);
      EXPECT_FALSE(fs::exists(snapshot));
    }
  }
  // And training goes on there.
  DurableState state = recover();
  auto log = open_disk_log(loop_, folder(), options());
  train(loop_, state, *log, 1);
  save(loop_, state, *log);
  train(loop_, state, *log, 1);
  log.reset();
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(7));
}

TEST_F(LogRecovery, WithoutAnyWholeSnapshotItSaysWhatToDo) {
  write(1);
  flip(snapshot_path(folder(), 1), 100);
  EXPECT_NE(recovery_error().find("delete the folder"), std::string::npos);
}

TEST_F(LogRecovery, ALogThatWasOnlyJustBegunIsNoDamage) {
  write(2);
  std::ofstream(log(2), std::ios::binary) << "COHPS";
  EXPECT_EQ(recover().snapshot(), DurableState::snapshot_after(2));
  EXPECT_FALSE(fs::exists(log(2)));
}

TEST_F(LogRecovery, AnotherServersFolderIsRefused) {
  write(1);
  UniqueFd file = DurableState::memory();
  std::string said = message_of<InvalidInput>([&] {
    recover_from_disk(folder(), file.get(), {.server = 1, .servers = DurableState::kServers});
  });
  EXPECT_NE(said.find("is of server 0 of 2, not of server 1 of 2"), said.npos) << said;
}

}  // namespace
}  // namespace cohort::ps
