#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/ps/kill_rounds_test.h"
#include "cohort/ps/state/segment.h"
#include "cohort/ps/state/segment_reader.h"

// kill -9 at any instant leaves every slice whole. The child's slices are functions of their
// versions, so that anything else is seen.
namespace cohort::ps {
namespace {

constexpr int kSlices = 3;
constexpr std::uint64_t kElements = 3000;
constexpr int kSegmentKills = 20;

float value_of(int slice, std::uint64_t version) {
  return static_cast<float>(version * 8 + static_cast<std::uint64_t>(slice));
}

void write_version(const SliceSide& side, int slice, std::uint64_t version) {
  const std::vector<float> values(kElements, value_of(slice, version));
  std::memcpy(side.values, values.data(), kElements * sizeof(float));
  std::memcpy(side.slots[0], values.data(), kElements * sizeof(float));
  *side.updates = version;
  side.ledger[0] = version;
  side.ledger[1] = version / 2;
}

// Elements of this side that are not of that version.
std::uint64_t wrong(const SliceSide& side, int slice, std::uint64_t version) {
  std::uint64_t count = 0;
  const float expected = value_of(slice, version);
  for (const std::byte* array : {side.values, side.slots[0]})
    for (std::uint64_t i = 0; i < kElements; ++i) {
      float value;
      std::memcpy(&value, array + i * sizeof value, sizeof value);
      count += value != expected;
    }
  count += *side.updates != version;
  count += side.ledger[0] != version;
  count += side.ledger[1] != version / 2;
  return count;
}

// Updates for ever; allocates nothing that a killed process would leave locked.
[[noreturn]] void update_until_killed(int file) {
  auto segment = Segment::open(file);
  for (std::uint64_t i = 0;; ++i) {
    const int slice = static_cast<int>(i % kSlices);
    write_version(segment->begin_update(slice), slice, segment->version(slice) + 1);
    segment->publish(slice);
  }
}

// A child that does not outlive the test.
class Child {
 public:
  explicit Child(int file) : pid_(::fork()) {
    if (pid_ == 0) update_until_killed(file);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  // How it ended.
  int kill() {
    if (pid_ > 0 && ::kill(pid_, SIGKILL) == 0) ::waitpid(pid_, &status_, 0);
    pid_ = -1;
    return status_;
  }

 private:
  pid_t pid_;
  int status_ = 0;
};

TEST(SegmentKillTest, SigkillAtAnyInstantLeavesWholeSlicesWithTheirLedgers) {
  const UniqueFd file(::memfd_create("ps-kill-test", MFD_CLOEXEC));
  {
    const std::vector<SliceShape> shapes(kSlices, {ElementType::f32, kElements, 1});
    auto segment = Segment::create(file.get(), "spec", 2, shapes, 0, 1);
    for (int i = 0; i < kSlices; ++i) write_version(segment->current(i), i, 1);
    segment->mark_initialised();
  }
  const SegmentReader reader(UniqueFd(::dup(file.get())));
  std::mt19937 random(5);
  const int rounds = kill_rounds(kSegmentKills);
  std::vector<float> values(kElements);
  for (int round = 0; round < rounds; ++round) {
    Child child(file.get());
    // Reads meanwhile, until the child is at work and then for a time that ends anywhere in an
    // update.
    const std::uint64_t before = reader.version(0);
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    std::uint64_t more = random() % 100;
    for (std::uint64_t i = 0; reader.version(0) == before || more > 0; ++i) {
      ASSERT_FALSE(deadline.expired()) << "the child does nothing";
      if (more > 0 && reader.version(0) != before) --more;
      const int slice = static_cast<int>(i % kSlices);
      const ReadRun run{0, kElements, reinterpret_cast<std::byte*>(values.data())};
      const std::uint64_t version = reader.read(slice, {&run, 1});
      std::uint64_t torn = 0;
      for (const float value : values) torn += value != value_of(slice, version);
      ASSERT_EQ(torn, 0u) << "round " << round << ", version " << version;
    }
    const int status = child.kill();
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << status;

    auto segment = Segment::open(file.get());
    ASSERT_NE(segment, nullptr);
    for (int i = 0; i < kSlices; ++i) {
      ASSERT_EQ(wrong(segment->current(i), i, segment->version(i)), 0u)
          << "round " << round << ", slice " << i << ", version " << segment->version(i);
      ASSERT_EQ(reader.ledger(i, 0), segment->version(i));
    }
  }
}

}  // namespace
}  // namespace cohort::ps
