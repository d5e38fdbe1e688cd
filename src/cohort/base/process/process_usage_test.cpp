#include "cohort/base/process/process_usage.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort {
namespace {

// A child that holds memory, and a grandchild that does the same.
class ProcessUsageTest : public testing::Test {
 protected:
  static constexpr std::size_t kHeld = std::size_t{24} << 20;

  void SetUp() override {
    int ready[2], end[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::pipe(end), 0);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::close(end[1]);
      ::fork();  // both hold it
      std::vector<char> held(kHeld, 'x');
      char byte = held[::getpid() % kHeld];
      if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
      const ssize_t rest = ::read(end[0], &byte, 1);  // until the test ends
      ::_exit(static_cast<int>(rest));
    }
    ::close(ready[1]);
    ::close(end[0]);
    end_.reset(end[1]);
    const UniqueFd told(ready[0]);
    for (int i = 0; i < 2; ++i) {
      char byte = 0;
      ASSERT_EQ(::read(told.get(), &byte, 1), 1);
    }
  }
  void TearDown() override {
    end_.reset();
    ::waitpid(child_, nullptr, 0);
  }

  pid_t child_ = -1;
  UniqueFd end_;
};

TEST_F(ProcessUsageTest, ATreeIsCountedWithItsDescendants) {
  const auto usage = usage_of_trees({child_, ::getpid()});
  ASSERT_TRUE(usage.contains(child_));
  EXPECT_GT(usage.at(child_).resident_bytes, 2 * kHeld);
  EXPECT_THAT(usage.at(child_).processes, testing::SizeIs(2));
  // The child is a tree of its own here: it is not counted twice.
  ASSERT_TRUE(usage.contains(::getpid()));
  const auto whole = usage_of_trees({::getpid()}).at(::getpid());
  EXPECT_GT(whole.resident_bytes, usage.at(::getpid()).resident_bytes + kHeld);
}

TEST_F(ProcessUsageTest, ProcessorTimeGrowsWithWork) {
  const auto seconds = [] { return usage_of_trees({::getpid()}).at(::getpid()).cpu_seconds; };
  const double before = seconds();
  volatile unsigned sum = 0;
  while (::clock() < static_cast<clock_t>((before + 0.2) * CLOCKS_PER_SEC)) sum = sum + 1;
  EXPECT_GT(seconds(), before);
}

TEST_F(ProcessUsageTest, WhatIsNotThereIsLeftOut) {
  EXPECT_TRUE(usage_of_trees({0x7ffffffe}).empty());
  EXPECT_TRUE(usage_of_trees({}).empty());
}

}  // namespace
}  // namespace cohort
