#include "cohort/report/event_reader.h"

#include <gmock/gmock.h>

#include <fstream>
#include <vector>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/report/event_file.h"
#include "cohort/report/event_record.h"
#include "cohort/report/proto.h"

namespace cohort::report {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 16;

std::string record_of(const std::string& data) {
  std::string record;
  ByteWriter writer(record);
  writer.integer(std::uint64_t{data.size()});
  writer.integer(masked_crc(record));
  record += data;
  writer.integer(masked_crc(data));
  return record;
}

std::string tensor_event(const Proto& tensor) {
  return Proto()
      .number(kEventTime, 1.5)
      .integer(kEventStep, 7)
      .message(kEventSummary,
               Proto().message(kSummaryValue,
                               Proto().text(kValueTag, "t").message(kValueTensor, tensor)))
      .bytes();
}

class EventReaderTest : public ::testing::Test {
 protected:
  void append(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::app) << bytes;
  }
  std::vector<double> values(std::uint64_t offset = 0) {
    std::vector<double> values;
    for (const auto& event : read_events(path_, offset, kPart).scalars)
      values.push_back(event.value);
    return values;
  }

  ScratchFolder folder_;
  std::filesystem::path path_ = folder_ / "events";
};

TEST_F(EventReaderTest, ReadsWhatTheWriterWrote) {
  EventWriter writer(folder_ / "run");
  writer.scalar("train/loss", 0.5, 3);
  writer.text("notes", "# hello", 0);
  writer.hyperparameters({{"rate", 0.1}}, {"loss"});
  writer.histogram("weights", std::vector<float>{1, 2, 3}, 4);
  writer.scalar("train/loss", -2, -1);
  writer.flush();
  const auto part = read_events(writer.path(), 0, kPart);
  ASSERT_EQ(part.scalars.size(), 2u);
  EXPECT_EQ(part.scalars[0].tag, "train/loss");
  EXPECT_EQ(part.scalars[0].step, 3);
  EXPECT_EQ(part.scalars[0].value, 0.5);
  EXPECT_GT(part.scalars[0].time, 1.6e9);
  EXPECT_EQ(part.scalars[1].step, -1);
  EXPECT_EQ(part.next, std::filesystem::file_size(writer.path()));
  EXPECT_FALSE(part.more);
  EXPECT_FALSE(part.damaged);
}

TEST_F(EventReaderTest, ReadsTensorsThatAreScalars) {
  std::string number;
  ByteWriter(number).integer(std::bit_cast<std::uint32_t>(0.25f));
  Proto shape;
  shape.message(kShapeDimension, Proto().integer(1, 1));
  append(record_of(tensor_event(
      Proto().integer(kTensorType, kTypeFloat).message(kTensorShape, {}).text(4, number))));
  append(record_of(tensor_event(
      Proto().integer(kTensorType, kTypeFloat).message(kTensorShape, {}).number(5, 0.5f))));
  append(record_of(tensor_event(Proto().integer(kTensorType, kTypeFloat).text(5, number))));
  append(record_of(tensor_event(Proto().integer(kTensorType, kTypeDouble).number(6, 0.75))));
  append(record_of(tensor_event(Proto().integer(kTensorType, kTypeInt64).text(10, "\x05"))));
  append(record_of(tensor_event(Proto().integer(kTensorType, kTypeInt32).integer(7, 6))));
  append(record_of(tensor_event(Proto()
                                    .integer(kTensorType, kTypeFloat)
                                    .message(kTensorShape, shape)
                                    .text(kTensorContent, number))));
  append(record_of(tensor_event(Proto().integer(kTensorType, kTypeString).text(8, "x"))));
  EXPECT_THAT(values(), testing::ElementsAre(0.25, 0.5, 0.25, 0.75, 5, 6));
}

TEST_F(EventReaderTest, FollowsAFileThatGrowsByHalfRecords) {
  const std::string record =
      record_of(tensor_event(Proto().integer(kTensorType, kTypeDouble).number(6, 1.0)));
  std::uint64_t at = 0;
  std::size_t found = 0;
  EXPECT_EQ(read_events(path_, 0, kPart).next, 0u);
  for (int copy = 0; copy < 3; ++copy)
    for (std::size_t i = 0; i < record.size(); ++i) {
      append(record.substr(i, 1));
      const auto part = read_events(path_, at, kPart);
      EXPECT_FALSE(part.damaged);
      found += part.scalars.size();
      at = part.next;
    }
  EXPECT_EQ(found, 3u);
  EXPECT_EQ(at, 3 * record.size());
}

TEST_F(EventReaderTest, IsBoundedAndPassesOverLargeRecords) {
  const auto tensor = Proto().integer(kTensorType, kTypeDouble).number(6, 1.0);
  const std::string record = record_of(tensor_event(tensor));
  for (int i = 0; i < 10; ++i) append(record);
  append(record_of(std::string(std::size_t{3} << 20, 'x')));
  append(record);
  const auto first = read_events(path_, 0, 3 * record.size());
  EXPECT_EQ(first.scalars.size(), 3u);
  EXPECT_TRUE(first.more);
  std::size_t found = 3;
  int parts = 1;
  for (auto part = first; part.more; ++parts) {
    part = read_events(path_, part.next, kPart);
    found += part.scalars.size();
  }
  EXPECT_EQ(found, 11u);
  EXPECT_LE(parts, 4);
}

TEST_F(EventReaderTest, StopsAtDamageAndNeverReadsBehindTheEnd) {
  const auto tensor = Proto().integer(kTensorType, kTypeDouble).number(6, 1.0);
  const std::string record = record_of(tensor_event(tensor));
  append(record + record + record);
  const std::string good = read_file(path_);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    write_file_atomically(path_, bad);
    const auto part = read_events(path_, 0, kPart);
    const std::size_t in_record = i % record.size();
    EXPECT_EQ(part.damaged, in_record < 12) << i;
    EXPECT_EQ(part.scalars.size(), in_record < 12 ? i / record.size() : 2) << i;
  }
  std::filesystem::create_symlink(path_, folder_ / "link");
  EXPECT_TRUE(read_events(folder_ / "link", 0, kPart).scalars.empty());
}

}  // namespace
}  // namespace cohort::report
