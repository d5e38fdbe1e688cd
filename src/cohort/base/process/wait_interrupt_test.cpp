#include "cohort/base/process/wait_interrupt.h"

#include <gtest/gtest.h>

#include <thread>

namespace cohort {
namespace {

using std::chrono::milliseconds;

struct Bell {
  // Nothing ever rings it.
  bool wait(Deadline deadline) {
    std::unique_lock lock(mutex);
    return wait_interruptibly(
        changed, lock, [] { return false; }, deadline);
  }
  std::mutex mutex;
  std::condition_variable changed;
};

TEST(WaitInterrupt, WithoutOneAWaitEndsAtItsDeadline) {
  EXPECT_FALSE(Bell().wait(Deadline::after(milliseconds(80))));
  EXPECT_TRUE(WaitInterrupt::limit(Deadline::never()).is_never());
}

TEST(WaitInterrupt, EndsAWaitOnceItsCheckSaysSo) {
  int asked = 0;
  const WaitInterrupt interrupt([&] { return ++asked == 3; });
  const auto begin = Deadline::Clock::now();
  EXPECT_THROW(Bell().wait(Deadline::never()), Interrupted);
  EXPECT_EQ(asked, 3);
  EXPECT_GE(Deadline::Clock::now() - begin, milliseconds(150));
}

TEST(WaitInterrupt, IsNotAskedAgainAfterItSaidSo) {
  const WaitInterrupt interrupt([] { return true; });
  EXPECT_THROW(Bell().wait(Deadline::never()), Interrupted);
  EXPECT_FALSE(Bell().wait(Deadline::after(milliseconds(80))));
}

TEST(WaitInterrupt, TheInnerOneStandsInForTheOuterOneAndEndsWithItsScope) {
  const WaitInterrupt outer([] { return true; });
  {
    const WaitInterrupt inner([] { return false; });
    EXPECT_FALSE(Bell().wait(Deadline::after(milliseconds(80))));
  }
  EXPECT_THROW(Bell().wait(Deadline::never()), Interrupted);
}

TEST(WaitInterrupt, ConcernsItsThreadOnly) {
  const WaitInterrupt interrupt([] { return true; });
  std::thread([] { EXPECT_FALSE(Bell().wait(Deadline::after(milliseconds(80)))); }).join();
}

}  // namespace
}  // namespace cohort
