#include "cohort/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace cohort::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatSummary, HasATableTheBestTheTotalsAndTheWeightsLast) {
  RunSummary run{.epochs = {{.epoch = 1,
                             .loss = 0.612,
                             .accuracy = 0.77,
                             .validation_loss = 0.44,
                             .validation_accuracy = 0.8412,
                             .seconds = 31.2,
                             .samples_per_second = 1923,
                             .communication_share = 0.043},
                            {.epoch = 2,
                             .loss = 0.35,
                             .accuracy = 0.874,
                             .validation_loss = 0.33,
                             .validation_accuracy = 0.8811,
                             .seconds = 30,
                             .samples_per_second = 2000,
                             .communication_share = 0.04}},
                 .seconds = 64,
                 .samples = 120000,
                 .workers = 2,
                 .communication_share = 0.0415,
                 .weights_sha256 = "abc123"};
  EXPECT_EQ(format_summary(run),
            "epoch    loss     acc  val loss  val acc  time  samples/s   comm\n"
            "    1  0.6120  77.00%    0.4400   84.12%  0:31       1923  4.30%\n"
            "    2  0.3500  87.40%    0.3300   88.11%  0:30       2000  4.00%\n"
            "best    epoch 2, val acc 88.11%\n"
            "total   1:04, 120000 samples, 1875 samples/s, 2 workers, 4.15% of the time in "
            "communication\n"
            "weights abc123\n");
}

TEST(FormatSummary, TheTotalsSayHowMuchWasWaitingForData) {
  EXPECT_EQ(format_summary({.seconds = 2, .samples = 10, .data_share = 0.0123}),
            "total   0:02, 10 samples, 5.00 samples/s, 1 worker, 1.23% waiting for data\n");
}

TEST(FormatSummary, ColumnsThatNoEpochHasAreLeftOut) {
  auto text = format_summary({.epochs = {{.epoch = 1, .loss = 0.5, .seconds = 1}}, .seconds = 1});
  EXPECT_THAT(text, Not(HasSubstr("acc")));
  EXPECT_THAT(text, HasSubstr("best    epoch 1, loss 0.5000"));
  EXPECT_THAT(text, Not(HasSubstr("weights")));
}

TEST(FormatSummary, TheMiddleOfALongRunIsLeftOut) {
  RunSummary run;
  for (int i = 1; i <= 100; ++i) run.epochs.push_back({.epoch = i, .loss = 1.0 / i});
  auto text = format_summary(run);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 5 + 1 + 15 + 1 + 1);
  EXPECT_THAT(text, HasSubstr("\n... 80 epochs more\n   86  "));
  EXPECT_THAT(text, HasSubstr("\n  100  "));
}

TEST(FormatSummary, ARunWithoutEpochsHasTotals) {
  EXPECT_EQ(format_summary({}), "total   0:00, 0 samples, 1 worker\n");
}

TEST(BestEpoch, IsOfTheMostTellingMetricAndTheEarliest) {
  std::vector<EpochSummary> epochs{{.epoch = 1, .loss = 3.0, .validation_accuracy = 0.5},
                                   {.epoch = 2, .loss = 2.0, .validation_accuracy = 0.9},
                                   {.epoch = 3, .loss = 1.0, .validation_accuracy = 0.9},
                                   {.epoch = 4, .loss = 0.5, .validation_accuracy = NAN}};
  EXPECT_EQ(best_epoch(epochs)->epoch, 2);
  for (auto& epoch : epochs) epoch.validation_accuracy.reset();
  EXPECT_EQ(best_epoch(epochs)->epoch, 4);
  epochs[3].loss = NAN;
  EXPECT_EQ(best_epoch(epochs)->epoch, 3);
  EXPECT_FALSE(best_epoch({}));
}

}  // namespace
}  // namespace cohort::report
