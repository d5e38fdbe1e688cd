#include "cohort/ps/client/step_state.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

// Two blocks of one slice each, and a table, on one server.
class StepStateTest : public ::testing::Test {
 protected:
  StepStateTest() {
    ModelSpec spec;
    spec.groups.push_back({});
    for (const char* name : {"first", "second"}) {
      Block block;
      block.elements = 16;
      block.parts.push_back({name, 0, 16, 0});
      spec.blocks.push_back(block);
    }
    spec.tables.push_back({.name = "rows", .dimension = 2});
    step.set_layout(std::make_shared<const ClientLayout>(spec, 0, 1));
  }

  StepState step;
};

TEST_F(StepStateTest, IsCompleteWhenEverySliceTableAndServerZeroHaveAnswered) {
  step.begin({.sequence = 5});
  step.push(1);
  step.push(0);
  EXPECT_EQ(step.end({}), (std::vector<std::pair<int, int>>{{0, 0}})) << "no rows were pushed";
  EXPECT_EQ(step.missing(0), 3);
  EXPECT_TRUE(step.on_values({0, 5, 8, Values::Reason::applied}, true));
  EXPECT_FALSE(step.on_values({0, 5, 9, Values::Reason::applied}, true)) << "a second answer";
  EXPECT_TRUE(step.on_values({1, 5, 7, Values::Reason::dropped_late}, true));
  EXPECT_TRUE(step.on_rows_done(0, {0, 5, 6, Values::Reason::applied}));
  EXPECT_FALSE(step.is_complete());
  EXPECT_FALSE(step.on_step_done({.sequence = 4}));
  EXPECT_TRUE(step.on_step_done({.sequence = 5}));
  EXPECT_TRUE(step.is_complete());
  std::vector<int> ready;
  step.take_ready(ready);
  EXPECT_EQ(ready, (std::vector<int>{0, 1}));
  const StepOutcome outcome = step.finish();
  EXPECT_EQ(outcome.dropped, 1u);
  EXPECT_EQ(outcome.version, 6u) << "of the table, which is behind";
}

TEST_F(StepStateTest, ABlockThatWasNotPushedIsNamed) {
  step.begin({.sequence = 1});
  step.push(0);
  EXPECT_THROW(step.end({}), InvalidInput);
}

TEST_F(StepStateTest, AnswersToWhatWasNotPushedAreRefused) {
  const Values values{0, 1, 1, Values::Reason::applied};
  EXPECT_THROW(step.on_values(values, true), ProtocolError) << "before the step";
  step.begin({.sequence = 1});
  EXPECT_THROW(step.on_values(values, true), ProtocolError) << "before the push";
  EXPECT_THROW(step.on_rows_done(0, {3, 1, 1, Values::Reason::applied}), ProtocolError);
  step.push(0);
  EXPECT_TRUE(step.on_values(values, true));
}

TEST_F(StepStateTest, AServerIsWaitedForUntilTheStepIsOver) {
  EXPECT_FALSE(step.waits_for(0));
  step.begin({.sequence = 1});
  EXPECT_TRUE(step.waits_for(0));
  step.push(0);
  step.push(1);
  step.end({});
  step.on_values({0, 1, 1, Values::Reason::applied}, false);
  step.on_values({1, 1, 1, Values::Reason::applied}, false);
  step.on_rows_done(0, {0, 1, 1, Values::Reason::applied});
  EXPECT_TRUE(step.waits_for(0)) << "server 0 has not ended it";
  step.on_step_done({.sequence = 1});
  EXPECT_FALSE(step.waits_for(0));
}

}  // namespace
}  // namespace cohort::ps
