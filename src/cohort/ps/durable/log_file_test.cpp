#include "cohort/ps/durable/log_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/ps/durable/log_folder.h"

namespace cohort::ps {
namespace {

class LogFile : public testing::Test {
 protected:
  std::shared_ptr<std::string> record(std::uint64_t version) {
    const std::string payload(100 + version, static_cast<char>('a' + version));
    UpdateRecord record{.target = 1, .version = version};
    record.payload = std::as_bytes(std::span(payload));
    return std::make_shared<std::string>(encode_record(record));
  }
  // Versions of each batch.
  void write(const std::vector<std::vector<std::uint64_t>>& batches) {
    LogAppender log(folder_.path(), {.number = 1});
    for (const auto& batch : batches) {
      std::vector<std::shared_ptr<std::string>> records;
      for (std::uint64_t version : batch) {
        places_.push_back(log.bytes());
        for (const auto& before : records) places_.back() += before->size();
        records.push_back(record(version));
      }
      log.append(records);
    }
    whole_ = read_file(path());
  }
  void damage(std::uint64_t place) {
    std::string bytes = read_file(path());
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  std::vector<std::uint64_t> read(LogReader& log) {
    std::vector<std::uint64_t> versions;
    while (auto stored = log.next()) versions.push_back(stored->record.version);
    return versions;
  }
  std::filesystem::path path() const { return log_path(folder_.path(), 1); }

  ScratchFolder folder_;
  std::vector<std::uint64_t> places_;
  std::string whole_;
};

TEST_F(LogFile, RecordsComeBackInTheirOrder) {
  write({{1}, {2, 3, 4}, {5}});
  LogReader log(path());
  EXPECT_EQ(read(log), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(log.offset(), log.size());
}

TEST_F(LogFile, ARecordThatIsCutOffAnywhereEndsTheLogBeforeIt) {
  write({{1}, {2}});
  for (std::uint64_t size = places_[1] + 1; size < whole_.size(); ++size) {
    std::ofstream(path(), std::ios::binary) << whole_.substr(0, size);
    LogReader log(path());
    EXPECT_EQ(read(log), std::vector<std::uint64_t>{1});
    EXPECT_EQ(log.offset(), places_[1]);
    EXPECT_FALSE(log.first_behind_damage());
  }
}

TEST_F(LogFile, ARecordThatIsDamagedAnywhereEndsTheLogBeforeIt) {
  write({{1}, {2}});
  for (std::uint64_t place = places_[1]; place < whole_.size(); ++place) {
    std::ofstream(path(), std::ios::binary) << whole_;
    damage(place);
    LogReader log(path());
    EXPECT_EQ(read(log), std::vector<std::uint64_t>{1}) << place;
    EXPECT_FALSE(log.first_behind_damage());
  }
}

TEST_F(LogFile, DamageBeforeWhatWasWrittenLaterIsAHole) {
  write({{1}, {2}, {3}, {4}});
  damage(places_[1] + 20);
  LogReader log(path());
  EXPECT_EQ(read(log), std::vector<std::uint64_t>{1});
  EXPECT_EQ(log.first_behind_damage(), places_[2]);
}

// The pages of a batch reach the disk in any order: a later record may be there without an earlier.
TEST_F(LogFile, DamageWithinTheLastBatchIsATornEnd) {
  write({{1}, {2, 3, 4}});
  damage(places_[2] + 20);
  LogReader log(path());
  EXPECT_EQ(read(log), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_FALSE(log.first_behind_damage());
}

}  // namespace
}  // namespace cohort::ps
