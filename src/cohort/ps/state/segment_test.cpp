#include "cohort/ps/state/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/state/segment_layout.h"
#include "cohort/ps/state/segment_reader.h"

namespace cohort::ps {
namespace {

using ::testing::HasSubstr;

UniqueFd memory_file() { return UniqueFd(::memfd_create("ps-test", MFD_CLOEXEC)); }

const std::vector<SliceShape> kShapes = {
    {ElementType::f32, 1000, 2}, {ElementType::f64, 3, 0}, {ElementType::f32, 1, 3}};

void write_all(SliceSide side, std::uint64_t elements, float value) {
  std::vector<float> values(elements, value);
  std::memcpy(side.values, values.data(), elements * sizeof(float));
}

std::vector<float> read_all(const SegmentReader& reader, int slice, std::uint64_t elements) {
  std::vector<float> values(elements);
  const ReadRun run{0, elements, reinterpret_cast<std::byte*>(values.data())};
  reader.read(slice, {&run, 1});
  return values;
}

TEST(SegmentTest, BeginsWithZerosAtTheFirstStep) {
  const UniqueFd file = memory_file();
  auto segment = Segment::create(file.get(), "the spec", 3, kShapes, 0, 41);
  EXPECT_FALSE(segment->is_initialised());
  EXPECT_EQ(segment->slices(), 3);
  EXPECT_EQ(segment->workers(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(segment->version(i), 41u);
    EXPECT_THAT(segment->current(i).ledger, ::testing::Each(41u));
    EXPECT_EQ(*segment->current(i).updates, 0u);
  }
  const SegmentReader reader(UniqueFd(::dup(file.get())));
  EXPECT_THAT(read_all(reader, 0, 1000), ::testing::Each(0.0f));
  EXPECT_EQ(reader.ledger(2, 1), 41u);
}

TEST(SegmentTest, ArraysAreAlignedAndApart) {
  const UniqueFd file = memory_file();
  auto segment = Segment::create(file.get(), "", 5, kShapes, 0, 0);
  std::vector<std::pair<std::byte*, std::size_t>> arrays;
  for (int i = 0; i < segment->slices(); ++i) {
    const std::size_t bytes = kShapes[static_cast<std::size_t>(i)].elements *
                              size_of(kShapes[static_cast<std::size_t>(i)].type);
    for (const SliceSide& side : {segment->current(i), segment->begin_update(i)}) {
      arrays.emplace_back(side.values, bytes);
      for (int slot = 0; slot < segment->shape(i).slots; ++slot)
        arrays.emplace_back(side.slots[static_cast<std::size_t>(slot)], bytes);
      arrays.emplace_back(reinterpret_cast<std::byte*>(side.updates), 8 + 8 * side.ledger.size());
    }
  }
  std::ranges::sort(arrays);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrays[i].first) % 64, 0u);
    if (i == 0) continue;
    EXPECT_LE(arrays[i - 1].first + arrays[i - 1].second, arrays[i].first);
  }
}

TEST(SegmentTest, AVersionCountsOnlyWhenPublished) {
  const UniqueFd file = memory_file();
  auto segment = Segment::create(file.get(), "", 1, kShapes, 0, 0);
  const SegmentReader reader(UniqueFd(::dup(file.get())));
  write_all(segment->begin_update(0), 1000, 1);
  EXPECT_EQ(reader.version(0), 0u);
  EXPECT_THAT(read_all(reader, 0, 1000), ::testing::Each(0.0f));
  segment->publish(0);
  EXPECT_EQ(reader.version(0), 1u);
  EXPECT_THAT(read_all(reader, 0, 1000), ::testing::Each(1.0f));
  write_all(segment->begin_update(0), 1000, 2);
  segment->abandon_update(0);
  EXPECT_EQ(segment->version(0), 1u);
  EXPECT_THAT(read_all(reader, 0, 1000), ::testing::Each(1.0f));
}

TEST(SegmentTest, TheVersionBeforeStaysUntilTheNextIsBegun) {
  const UniqueFd file = memory_file();
  auto segment = Segment::create(file.get(), "", 1, kShapes, 0, 7);
  segment->mark_initialised();
  EXPECT_FALSE(segment->previous(0)) << "the first version is alone";
  write_all(segment->begin_update(0), 1000, 8);
  segment->publish(0);
  write_all(segment->begin_update(0), 1000, 9);
  segment->publish(0);
  ASSERT_TRUE(segment->previous(0));
  EXPECT_EQ(*reinterpret_cast<const float*>(segment->previous(0)->values), 8);
  segment->begin_update(0);
  EXPECT_FALSE(segment->previous(0));
}

TEST(SegmentTest, IsFoundAgainOnceItWasInitialised) {
  const UniqueFd file = memory_file();
  EXPECT_EQ(Segment::open(file.get()), nullptr);
  auto segment = Segment::create(file.get(), "the spec", 2, kShapes, 1 << 20, 0);
  EXPECT_EQ(Segment::open(file.get()), nullptr);
  segment->mark_initialised();
  segment->use_table_arena(8192, 4096);
  segment->table_arena()[8192] = std::byte{42};
  write_all(segment->begin_update(0), 1000, 1);
  segment->publish(0);
  write_all(segment->begin_update(0), 500, 2);  // and dies here
  segment.reset();

  segment = Segment::open(file.get());
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(segment->spec(), "the spec");
  EXPECT_EQ(segment->version(0), 1u);
  EXPECT_EQ(reinterpret_cast<float*>(segment->current(0).values)[999], 1);
  EXPECT_EQ(segment->table_arena()[8192], std::byte{42});
  write_all(segment->begin_update(0), 1000, 3);
  segment->publish(0);
  EXPECT_EQ(segment->version(0), 2u);
}

TEST(SegmentTest, TakesTheMemoryOfItsDenseStateAtOnceAndOfTablesAsUsed) {
  const UniqueFd file = memory_file();
  const std::vector<SliceShape> shapes = {{ElementType::f32, 1 << 18, 1}};
  auto segment = Segment::create(file.get(), "", 1, shapes, std::uint64_t{1} << 32, 0);
  const std::uint64_t dense = segment->bytes();
  EXPECT_GE(dense, std::uint64_t{4} << 20);
  EXPECT_LT(dense, std::uint64_t{5} << 20);
  segment->use_table_arena(1 << 30, 1 << 20);
  EXPECT_EQ(segment->bytes(), dense + (1 << 20));
}

TEST(SegmentTest, SaysHowMuchMemoryIsMissing) {
  const UniqueFd file = memory_file();
  const std::vector<SliceShape> shapes(64, {ElementType::f64, std::uint64_t{1} << 35, 0});
  EXPECT_THAT(message_of<SystemError>([&] { Segment::create(file.get(), "", 1, shapes, 0, 0); }),
              HasSubstr("cannot take 33554"));
}

TEST(SegmentTest, RefusesFilesThatAreNoSegment) {
  const UniqueFd file = memory_file();
  ASSERT_EQ(::pwrite(file.get(),
                     "something else, of some length, padded to a header's size......."
                     "................................................",
                     112, 0),
            112);
  EXPECT_THAT(message_of<InvalidInput>([&] { Segment::open(file.get()); }),
              HasSubstr("is not one of a parameter server"));

  auto segment = Segment::create(file.get(), "spec", 1, kShapes, 0, 0);
  segment->mark_initialised();
  const auto with_byte = [&](off_t offset, char value) {
    char old = 0;
    EXPECT_EQ(::pread(file.get(), &old, 1, offset), 1);
    EXPECT_EQ(::pwrite(file.get(), &value, 1, offset), 1);
    const std::string message = message_of<InvalidInput>([&] { Segment::open(file.get()); });
    EXPECT_EQ(::pwrite(file.get(), &old, 1, offset), 1);
    return message;
  };
  EXPECT_THAT(with_byte(8, 99), HasSubstr("layout version 99"));
  EXPECT_THAT(with_byte(16, 7), HasSubstr("damaged"));
  EXPECT_THAT(with_byte(23, 7), HasSubstr("claims"));
  ASSERT_NE(Segment::open(file.get()), nullptr);
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  EXPECT_THAT(message_of<InvalidInput>([&] { Segment::open(file.get()); }), HasSubstr("4096"));
}

// What a reader of version 1 does when `meanwhile` happens during its first copy: the versions that
// it copies, one after the other.
std::vector<std::uint64_t> copies(const std::function<void(Segment&)>& meanwhile) {
  const UniqueFd file = memory_file();
  auto segment = Segment::create(file.get(), "", 1, kShapes, 0, 1);
  std::string spec;
  const std::uint64_t word = read_layout(file.get(), spec).state_word(0);
  void* memory = ::mmap(nullptr, word + 8, PROT_READ, MAP_SHARED, file.get(), 0);
  EXPECT_NE(memory, MAP_FAILED);
  std::vector<std::uint64_t> versions;
  read_whole(*reinterpret_cast<const std::atomic<std::uint64_t>*>(
                 static_cast<const std::byte*>(memory) + word),
             [&](std::uint64_t version) {
               versions.push_back(version);
               if (versions.size() == 1) meanwhile(*segment);
             });
  ::munmap(memory, word + 8);
  return versions;
}

TEST(SegmentTest, AReaderIsOvertakenOnlyByTheVersionAfterTheNext) {
  using Versions = std::vector<std::uint64_t>;
  const auto update = [](Segment& segment) {
    segment.begin_update(0);
    segment.publish(0);
  };
  EXPECT_EQ(copies([&](Segment&) {}), (Versions{1}));
  EXPECT_EQ(copies([&](Segment& segment) { segment.begin_update(0); }), (Versions{1}));
  EXPECT_EQ(copies(update), (Versions{1}));
  EXPECT_EQ(copies([&](Segment& segment) {
              update(segment);
              segment.begin_update(0);
            }),
            (Versions{1, 2}));
  EXPECT_EQ(copies([&](Segment& segment) {
              update(segment);
              segment.begin_update(0);
              segment.abandon_update(0);
            }),
            (Versions{1, 2}));
  EXPECT_EQ(copies([&](Segment& segment) {
              update(segment);
              update(segment);
            }),
            (Versions{1, 3}));
}

TEST(SegmentTest, ReadersNeverSeeATornVersion) {
  const UniqueFd file = memory_file();
  const std::vector<SliceShape> shapes = {{ElementType::f32, 5000, 0}};
  auto segment = Segment::create(file.get(), "", 1, shapes, 0, 0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::uint64_t version = 1; version <= 2000; ++version) {
      write_all(segment->begin_update(0), 5000, static_cast<float>(version));
      if (version % 7 == 0) {  // garbage that never counts
        segment->abandon_update(0);
        write_all(segment->begin_update(0), 2500, -1);
        segment->abandon_update(0);
        write_all(segment->begin_update(0), 5000, static_cast<float>(version));
      }
      segment->publish(0);
    }
    done = true;
  });
  const SegmentReader reader(UniqueFd(::dup(file.get())));
  std::uint64_t last = 0;
  std::uint64_t torn = 0;
  do {
    std::vector<float> values(5000, -2);
    std::vector<ReadRun> runs;
    for (std::uint64_t i = 0; i < 5000; i += 500)
      runs.push_back({i, 500, reinterpret_cast<std::byte*>(values.data() + i)});
    const std::uint64_t version = reader.read(0, runs);
    EXPECT_GE(version, last);
    last = version;
    for (const float value : values) torn += value != static_cast<float>(version);
  } while (!done);
  writer.join();
  EXPECT_EQ(torn, 0u);
}

}  // namespace
}  // namespace cohort::ps
