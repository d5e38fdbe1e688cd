#include "cohort/train/data/data_file.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/test_folder_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  unsigned state = 1;
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1) >> 28);
  return bytes;
}

Bytes read_all(const DataFile& file) {
  DataReader reader(file);
  Bytes result, part(1000);
  while (const std::size_t count = reader.read_some(part))
    result.insert(result.end(), part.begin(), part.begin() + static_cast<long>(count));
  return result;
}

std::string complaint(const DataFile& file) {
  return message_of<InvalidInput>([&] { read_all(file); });
}

using DataFileTest = DataTest;

TEST_F(DataFileTest, ReadsPlainAndPackedAlikeWhateverTheName) {
  const Bytes bytes = some_bytes(1'000'000);
  EXPECT_EQ(read_all(write("plain.gz", bytes)), bytes);
  EXPECT_EQ(read_all(write("packed", gzip(bytes))), bytes);
  EXPECT_EQ(read_all(write("two members", gzip(bytes) + gzip({1, 2}))), (bytes + Bytes{1, 2}));
  EXPECT_EQ(read_all(write("packed nothing", gzip({}))), Bytes{});
  EXPECT_EQ(read_all(write("nothing", {})), Bytes{});
  EXPECT_EQ(read_all(write("one byte", {0x1f})), Bytes{0x1f});
}

TEST_F(DataFileTest, SaysWhichFileIsMissingAndWhatToDo) {
  EXPECT_THAT(complaint({folder_ / "none", "Fetch it again"}),
              AllOf(HasSubstr((folder_ / "none").string()), HasSubstr("no such file"),
                    HasSubstr(". Fetch it again")));
  EXPECT_THAT(complaint({folder_, ""}), HasSubstr("not a regular file"));
}

TEST_F(DataFileTest, RefusesDamagedGzip) {
  const Bytes good = gzip(some_bytes(100'000));
  Bytes cut(good.begin(), good.begin() + static_cast<long>(good.size() / 2));
  EXPECT_THAT(complaint(write("cut", cut)), HasSubstr("cut off"));
  Bytes without_sum(good.begin(), good.end() - 8);
  EXPECT_THAT(complaint(write("no sum", without_sum)), HasSubstr("cut off"));
  Bytes flipped = good;
  flipped[flipped.size() - 8] ^= 1;  // in the CRC
  EXPECT_THAT(complaint(write("crc", flipped)), HasSubstr("damaged"));
  flipped = good;
  flipped[good.size() / 2] ^= 0x55;
  EXPECT_THAT(complaint(write("data", flipped)), HasSubstr("damaged"));
  EXPECT_THAT(complaint(write("garbage", good + Bytes{1, 2, 3})), HasSubstr("not gzip's"));
  EXPECT_THAT(complaint(write("garbage", good + Bytes{1})), HasSubstr("not gzip's"));
}

TEST_F(DataFileTest, SaysHowMuchIsMissingOrThatThereIsTooMuch) {
  DataReader reader(write("short", some_bytes(10)));
  Bytes out(8);
  reader.read(out, "the header");
  EXPECT_THAT(message_of<InvalidInput>([&] { reader.read(out, "images"); }),
              HasSubstr("too short: images should take 8 bytes, 2 are there"));
  DataReader long_one(write("long", some_bytes(9)));
  long_one.read(out, "everything");
  EXPECT_THAT(message_of<InvalidInput>([&] { long_one.expect_end(); }), HasSubstr("too long"));
}

TEST_F(DataFileTest, BoundsWhatAFileCanHold) {
  EXPECT_EQ(DataReader(write("plain", some_bytes(10))).most_bytes(), 10u);
  const Bytes zeros(10'000'000);
  EXPECT_GE(DataReader(write("packed", gzip(zeros))).most_bytes(), zeros.size());
}

}  // namespace
}  // namespace cohort::train
