#include "cohort/ps/server/step_tally.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::ps {
namespace {

StepEnd end(std::uint64_t sequence, std::vector<std::vector<double>> rows, std::string stop = {},
            std::uint32_t round = 1) {
  return {sequence, std::move(rows), round, std::move(stop)};
}

TEST(StepTally, WholeStepsAreSummedInTheOrderOfShards) {
  StepTally tally(true, 2, 3);  // worker/0 has two shards
  EXPECT_TRUE(tally.end(1, end(1, {{1e16, 3}})).empty());
  EXPECT_TRUE(tally.waits(1));
  const auto answers = tally.end(0, end(1, {{1, 1}, {-1e16, 2}}));
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& [worker, done] : answers) {
    EXPECT_TRUE(done.whole);
    EXPECT_EQ(done.tally, (std::vector<double>{(1 - 1e16) + 1e16, 6}));
  }
  EXPECT_FALSE(tally.waits(1));
}

TEST(StepTally, ARepeatedEndIsAnsweredAsTheFirstAndCountedOnce) {
  StepTally tally(true, 2, 2);
  tally.end(0, end(1, {{1}}));
  EXPECT_TRUE(tally.end(0, end(1, {{1}})).empty());
  tally.end(1, end(1, {{2}}));
  const auto again = tally.end(0, end(1, {{1}}));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].second.tally, std::vector<double>{3});
  StepTally running(false, 1, 1);
  running.end(0, end(1, {{5}}));
  EXPECT_EQ(running.end(0, end(1, {{5}}))[0].second.tally, std::vector<double>{5});
  EXPECT_EQ(running.end(0, end(2, {{1}}))[0].second.tally, std::vector<double>{6});
}

TEST(StepTally, NotWholeAnswersAtOnceWithEverythingSoFar) {
  StepTally tally(false, 2, 2);
  EXPECT_EQ(tally.end(1, end(1, {{2}}))[0].second.tally, std::vector<double>{2});
  const auto answers = tally.end(0, end(1, {{3}}));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second, (StepDone{1, false, {5}, ""}));
}

TEST(StepTally, AWishToStopReachesAllWorkersInTheSameStep) {
  StepTally tally(true, 2, 2);
  tally.end(0, end(1, {{1}}));
  for (const auto& [worker, done] : tally.end(1, end(1, {{1}}, "the loss is small enough")))
    EXPECT_EQ(done.stop, "the loss is small enough") << worker;
}

TEST(StepTally, AWishToStopEndsItsOwnRoundAndNoOther) {
  StepTally tally(false, 2, 2);
  EXPECT_EQ(tally.end(0, end(3, {{1}}, "enough", 1))[0].second.stop, "enough");
  EXPECT_EQ(tally.end(0, end(4, {{1}}, {}, 2))[0].second.stop, "");
  EXPECT_EQ(tally.end(1, end(2, {{1}}, {}, 1))[0].second.stop, "enough");  // still in the first
  EXPECT_EQ(tally.end(1, end(3, {{1}}, "too much", 2))[0].second.stop, "too much");
  EXPECT_EQ(tally.end(0, end(5, {{1}}, {}, 2))[0].second.stop, "too much");
}

TEST(StepTally, AfterARestartAStepThatOthersLeftBehindIsAnsweredWithoutThem) {
  StepTally tally(true, 2, 2);  // made anew: worker/1 had its answer to step 9 before
  EXPECT_TRUE(tally.end(0, end(9, {{1}})).empty());
  const auto answers = tally.begin(1, 10);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first, 0);
  EXPECT_FALSE(answers[0].second.whole);
}

TEST(StepTally, WhoHasGoneOnBeforeTheOtherEndsDoesNotHoldItUp) {
  StepTally tally(true, 2, 2);
  tally.begin(1, 10);
  const auto answers = tally.end(0, end(9, {{1}}));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].second.whole);
}

TEST(StepTally, WhoLeavesDoesNotHoldUpTheOthers) {
  StepTally tally(true, 3, 3);
  tally.end(0, end(9, {{1}}));
  tally.end(1, end(9, {{2}}));
  const auto answers = tally.begin(2, UINT64_MAX);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].second, (StepDone{9, false, {3}, ""}));
}

TEST(StepTally, RowsThatDoNotFitAreNamed) {
  StepTally tally(true, 2, 2);
  EXPECT_EQ(message_of<ProtocolError>([&] {
              tally.end(1, end(4, {{1}, {2}}));
            }),
            "worker/1 ends step 4 with 2 rows, but has 1 shards");
  tally.end(1, end(4, {{1}}));
  EXPECT_EQ(message_of<ProtocolError>([&] { tally.end(1, end(3, {{1}})); }),
            "worker/1 ends step 3 after step 4");
}

}  // namespace
}  // namespace cohort::ps
