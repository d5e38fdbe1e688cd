#include "cohort/ps/server/worker_registry.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

Hello hello_from(std::uint64_t incarnation, std::uint64_t process) {
  return {.worker = 1, .workers = 2, .incarnation = incarnation, .process = process};
}

TEST(WorkerRegistry, TheLaterOfTwoProcessesIsTheWorkerAndTheOtherNeverAgain) {
  WorkerRegistry registry;
  EXPECT_EQ(registry.enter(hello_from(0, 10), 100), 0u);
  EXPECT_EQ(registry.enter(hello_from(0, 11), 101), 100u);
  EXPECT_THROW(registry.enter(hello_from(0, 10), 102), ProtocolError);
  EXPECT_EQ(registry.session_of(1), 101u);
  EXPECT_EQ(registry.enter(hello_from(0, 11), 103), 101u) << "the same one connects again";
}

TEST(WorkerRegistry, ALargerIncarnationReplacesASmallerWheneverItComes) {
  WorkerRegistry registry;
  registry.enter(hello_from(2, 10), 100);
  EXPECT_THROW(registry.enter(hello_from(1, 11), 101), ProtocolError);
  EXPECT_EQ(registry.enter(hello_from(3, 12), 102), 100u);
}

TEST(WorkerRegistry, ASessionThatWasReplacedLeavesNothingBehind) {
  WorkerRegistry registry;
  registry.enter(hello_from(0, 10), 100);
  registry.enter(hello_from(0, 11), 101);
  EXPECT_FALSE(registry.leave(1, 100));
  EXPECT_EQ(registry.connected(), 1);
  EXPECT_TRUE(registry.leave(1, 101));
  EXPECT_EQ(registry.connected(), 0);
  EXPECT_EQ(registry.session_of(1), 0u);
  EXPECT_EQ(registry.session_of(7), 0u);
}

}  // namespace
}  // namespace cohort::ps
