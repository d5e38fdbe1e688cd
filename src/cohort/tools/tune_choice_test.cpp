#include "cohort/tools/tune_choice.h"

#include <gtest/gtest.h>

namespace cohort::tools {
namespace {

using collective::HostAllReduce;

TEST(TuneChoice, CutsWhereTheFirstAlgorithmStopsPaying) {
  EXPECT_EQ(best_cut({1, 2, 4}, {1, 1, 3}, {2, 2, 2}, 0), 2u);
  EXPECT_EQ(best_cut({1, 2, 4}, {3, 3, 3}, {2, 2, 2}, 0), 0u);
  EXPECT_EQ(best_cut({1, 2, 4}, {1, 1, 1}, {2, 2, 2}, 0), 4u);
}

TEST(TuneChoice, OneStrayMeasurementMovesNothing) {
  EXPECT_EQ(best_cut({1, 2, 4, 8}, {1, 2.2, 1, 5}, {2, 2, 2, 2}, 0), 4u);
}

TEST(TuneChoice, ATieKeepsWhatIsUsual) {
  for (const std::size_t usual : {0u, 2u, 4u}) {
    EXPECT_EQ(best_cut({1, 2, 4}, {1, 1, 1}, {1.04, 0.97, 1.04}, usual), usual);
    EXPECT_EQ(best_cut({1, 2, 4}, {1, 1, 1}, {1.5, 0.5, 0.5}, usual), 1u);
  }
}

TEST(TuneChoice, EachSizeGetsTheFastestOfThree) {
  TableBuilder builder;
  builder.between(2, {{64, {1, 2, 3}}, {1024, {2, 1, 3}}, {4096, {9, 8, 3}}});
  const auto table = builder.finish(2);
  EXPECT_EQ(table.all_reduce(2, 64), HostAllReduce::exchange_all);
  EXPECT_EQ(table.all_reduce(2, 1024), HostAllReduce::recursive_doubling);
  EXPECT_EQ(table.all_reduce(2, 4096), HostAllReduce::reduce_scatter);
}

TEST(TuneChoice, DefaultsStayForMoreHostsThanMeasured) {
  TableBuilder builder;
  builder.between(2, {{64, {2, 2, 1}}});
  builder.broadcast(3, {{64, {2, 1}}});
  const auto table = builder.finish(3);
  const collective::TuningTable defaults;
  for (const int hosts : {2, 3})
    EXPECT_EQ(table.all_reduce(hosts, 64), HostAllReduce::reduce_scatter);
  for (const int hosts : {4, 5, 8, 9, 100})
    for (const std::size_t bytes : {64u, 5000u, 20'000u, 70'000u}) {
      EXPECT_EQ(table.all_reduce(hosts, bytes), defaults.all_reduce(hosts, bytes));
      EXPECT_EQ(table.broadcast(hosts, bytes), defaults.broadcast(hosts, bytes));
    }
  EXPECT_EQ(collective::TuningTable::from_json(table.to_json(true), "x"), table);
}

}  // namespace
}  // namespace cohort::tools
