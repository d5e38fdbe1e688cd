#include "cohort/collective/native/staging_choice.h"

#include <gtest/gtest.h>

namespace cohort::collective {
namespace {

using std::chrono::microseconds;

// A call whose turns take these times; returns whether it tried.
bool run_call(StagingChoice& choice, std::uint64_t windows, int cached_us, int past_us) {
  choice.begin_call(windows);
  const bool trial = choice.trial();
  for (std::uint64_t turn = 0; turn < windows + 4 && choice.trial(); ++turn) {
    const bool past = choice.past_caches(turn);
    // Turns after a change still read what was staged before it; one is interrupted.
    const bool mixed = turn < 4 || (turn >= 7 && turn < 9);
    choice.took(turn, microseconds(mixed                     ? 1
                                   : turn == 5 || turn == 11 ? 9000
                                   : past                    ? past_us
                                                             : cached_us));
  }
  return trial;
}

TEST(StagingChoice, TheQuickerWayStays) {
  StagingChoice choice;
  EXPECT_TRUE(choice.past_caches(0));
  EXPECT_TRUE(run_call(choice, 100, 20, 30));
  EXPECT_FALSE(choice.past_caches(0));
  for (std::uint64_t i = 1; i < StagingChoice::kCallsBetween; ++i)
    EXPECT_FALSE(run_call(choice, 100, 150, 30));
  EXPECT_FALSE(choice.past_caches(99));
  EXPECT_TRUE(run_call(choice, 100, 150, 30));
  EXPECT_TRUE(choice.past_caches(99));
}

TEST(StagingChoice, ShortCallsTryNothingAndDoNotCount) {
  StagingChoice choice;
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(run_call(choice, StagingChoice::kTrialTurns - 1, 1, 9));
  EXPECT_TRUE(choice.past_caches(0));
  EXPECT_TRUE(run_call(choice, StagingChoice::kTrialTurns, 1, 9));
}

TEST(StagingChoice, ATrialUsesBothWays) {
  StagingChoice choice;
  choice.begin_call(20);
  EXPECT_FALSE(choice.past_caches(0));
  EXPECT_FALSE(choice.past_caches(StagingChoice::kSwitch - 1));
  EXPECT_TRUE(choice.past_caches(StagingChoice::kSwitch));
  EXPECT_TRUE(choice.past_caches(StagingChoice::kTrialTurns - 1));
}

}  // namespace
}  // namespace cohort::collective
