#include "cohort/report/progress_format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort::report {
namespace {

ProgressState full_state() {
  return {.epoch = 2,
          .epochs = 3,
          .step = 469,
          .steps = 938,
          .loss = 0.31274,
          .accuracy = 0.8912,
          .samples_per_second = 3214.4,
          .seconds_left = 42,
          .workers = 2,
          .communication_share = 0.041};
}

TEST(FormatProgress, AWideLineHoldsEverything) {
  EXPECT_EQ(format_progress(full_state(), 200),
            "epoch 2/3 [############------------] 469/938  loss 0.3127  acc 89.1%  3214 samples/s"
            "  0:42 left  2 workers  comm 4.1%");
}

TEST(FormatProgress, NoLineIsWiderThanAsked) {
  for (int width = 1; width < 130; ++width)
    EXPECT_LE(format_progress(full_state(), width).size(), static_cast<std::size_t>(width));
}

TEST(FormatProgress, TheLeastImportantIsLeftOutFirst) {
  auto state = full_state();
  EXPECT_EQ(format_progress(state, 90),
            "epoch 2/3 469/938  loss 0.3127  acc 89.1%  3214 samples/s  0:42 left  2 workers  "
            "comm 4.1%");
  EXPECT_EQ(format_progress(state, 80),
            "epoch 2/3 469/938  loss 0.3127  acc 89.1%  3214 samples/s  0:42 left  comm 4.1%");
  EXPECT_EQ(format_progress(state, 45), "epoch 2/3 469/938  loss 0.3127  0:42 left");
  EXPECT_EQ(format_progress(state, 31), "epoch 2/3 469/938  loss 0.3127");
  EXPECT_EQ(format_progress(state, 17), "epoch 2/3 469/938");
}

TEST(FormatProgress, AFileGetsEverythingWithoutABar) {
  EXPECT_EQ(format_progress(full_state(), 0),
            "epoch 2/3 469/938  loss 0.3127  acc 89.1%  3214 samples/s  0:42 left  2 workers  "
            "comm 4.1%");
}

TEST(FormatProgress, WhatNobodyKnowsIsLeftOut) {
  EXPECT_EQ(format_progress({.step = 7}, 120), "7  1 worker");
  EXPECT_EQ(format_progress({.epoch = 1, .step = 7, .loss = NAN}, 0),
            "epoch 1 7  loss nan  1 worker");
}

TEST(FormatProgress, WaitingForDataIsShownWhereItIsKnown) {
  auto state = full_state();
  state.data_share = 0.012;
  EXPECT_EQ(format_progress(state, 0),
            "epoch 2/3 469/938  loss 0.3127  acc 89.1%  3214 samples/s  0:42 left  2 workers  "
            "comm 4.1%  data 1.2%");
}

TEST(FormatProgress, AStepPastTheEndFillsTheBar) {
  EXPECT_EQ(format_progress({.epoch = 1, .epochs = 1, .step = 12, .steps = 10}, 40),
            "epoch 1/1 [############] 12/10  1 worker");
}

TEST(FormatNumbers, AreShortAndNeverLie) {
  EXPECT_EQ(format_duration(0.4), "0:00");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(3661), "1:01:01");
  EXPECT_EQ(format_duration(INFINITY), "?");
  EXPECT_EQ(format_duration(-3), "0:00");
  EXPECT_EQ(format_loss(0), "0.0000");
  EXPECT_EQ(format_loss(0.000012), "1.200e-05");
  EXPECT_EQ(format_loss(123456), "1.235e+05");
  EXPECT_EQ(format_loss(-INFINITY), "-inf");
  EXPECT_EQ(format_rate(0.751), "0.75");
  EXPECT_EQ(format_rate(41.54), "41.5");
}

}  // namespace
}  // namespace cohort::report
