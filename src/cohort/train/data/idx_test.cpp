#include "cohort/train/data/idx.h"

#include <gmock/gmock.h>

#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/test_folder_test.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using IdxTest = DataTest;

TEST_F(IdxTest, ReadsDimensionsAndElements) {
  const Bytes elements{1, 2, 3, 4, 5, 6};
  for (const Bytes& file : {idx_bytes({3, 2, 1}, elements), gzip(idx_bytes({3, 2, 1}, elements))}) {
    const IdxArray array = read_idx(write("x", file));
    EXPECT_EQ(array.header.type, IdxType::kUint8);
    EXPECT_THAT(array.header.dims, ElementsAre(3, 2, 1));
    EXPECT_EQ(array.bytes, elements);
  }
}

TEST_F(IdxTest, TurnsBigEndianElementsRound) {
  const IdxArray ints =
      read_idx(write("i", idx_bytes({2}, {0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe}, 0x0c)));
  std::int32_t values[2];
  std::memcpy(values, ints.bytes.data(), 8);
  EXPECT_THAT(values, ElementsAre(258, -2));
  const IdxArray floats = read_idx(write("f", idx_bytes({1}, {0x3f, 0xc0, 0, 0}, 0x0d)));
  float value;
  std::memcpy(&value, floats.bytes.data(), 4);
  EXPECT_EQ(value, 1.5f);
}

TEST_F(IdxTest, RefusesWhatIsNotIdx) {
  const auto complaint = [&](const Bytes& bytes) {
    return message_of<InvalidInput>([&] { read_idx(write("x", bytes)); });
  };
  EXPECT_THAT(complaint({'<', 'h', 't', 'm', 'l'}), HasSubstr("not an IDX file: it begins 3c 68"));
  EXPECT_THAT(complaint(idx_bytes({1}, {1}, 0x0a)), HasSubstr("not an IDX file"));
  EXPECT_THAT(complaint({0, 0, 8, 0}), HasSubstr("not an IDX file"));
  EXPECT_THAT(complaint({0, 0}), HasSubstr("too short"));
  EXPECT_THAT(complaint({0, 0, 8, 2, 0, 0}), HasSubstr("too short"));
  EXPECT_THAT(complaint(idx_bytes({3}, {1, 2, 3, 4})), HasSubstr("too long"));
  EXPECT_THAT(complaint(gzip(idx_bytes({5}, {1, 2, 3, 4}))), HasSubstr("too short"));
}

TEST_F(IdxTest, RefusesImpossibleSizesBeforeAllocating) {
  const auto complaint = [&](const Bytes& bytes) {
    return message_of<InvalidInput>([&] { read_idx(write("x", bytes)); });
  };
  constexpr std::uint32_t kHuge = 0xffffffff;
  EXPECT_THAT(complaint(idx_bytes({kHuge}, {1})), HasSubstr("than a file of its size can hold"));
  EXPECT_THAT(complaint(idx_bytes({kHuge, kHuge, kHuge, kHuge}, {}, 0x0e)),
              HasSubstr("than a file of its size can hold"));
  EXPECT_THAT(complaint(gzip(idx_bytes({60000, 28, 28}, {}))),
              HasSubstr("60000 x 28 x 28 elements, more than"));
  EXPECT_EQ(read_idx(write("x", idx_bytes({kHuge, kHuge, kHuge, 0}, {}))).bytes.size(), 0u);
}

TEST_F(IdxTest, NamesTheMagicNumberThatItExpected) {
  const DataFile labels = write("labels", idx_bytes({3}, {1, 2, 3}));
  EXPECT_THAT(message_of<InvalidInput>([&] { read_idx_bytes(labels, 3); }),
              HasSubstr("its magic number is 0x00000801, expected 0x00000803"));
}

}  // namespace
}  // namespace cohort::train
