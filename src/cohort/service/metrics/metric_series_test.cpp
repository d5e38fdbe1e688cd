#include "cohort/service/metrics/metric_series.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/service/store/store_readers.h"

namespace cohort::service {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

class SeriesTest : public testing::Test {
 protected:
  SeriesTest() {
    store_.add_job({.id = "a", .spec = "{}", .resolved = "{}", .tags = "{}"});
    store_.add_job({.id = "b", .spec = "{}", .resolved = "{}", .tags = "{}"});
  }
  void add(const std::string& job, const std::string& name, const std::vector<double>& values) {
    std::vector<MetricRow> rows;
    for (const double value : values)
      rows.push_back({.job = job,
                      .name = name,
                      .step = static_cast<std::int64_t>(rows.size()),
                      .value = value,
                      .time = 1000 + static_cast<Millis>(rows.size())});
    store_.add_metrics(rows);
  }

  ScratchFolder root_;
  RunStore store_{root_.path()};
};

TEST_F(SeriesTest, HasEachValueWhereTheyFit) {
  add("a", "loss", {3, NAN, 1});
  add("b", "loss", {9});
  const MetricSeries series = read_series(store_, "a", "loss", {.points = 3});
  EXPECT_EQ(series.count, 3);
  EXPECT_THAT(series.step, ElementsAre(0, 1, 2));
  EXPECT_THAT(series.time, ElementsAre(1000, 1001, 1002));
  EXPECT_EQ(series.value[0], 3);
  EXPECT_TRUE(std::isnan(series.value[1]));
  EXPECT_EQ(series.value[2], 1);
  EXPECT_THAT(series.low, IsEmpty());
  EXPECT_EQ(last_metric(store_, "a"), 3);
  EXPECT_EQ(last_metric(store_, "b"), 4);
  EXPECT_EQ(last_metric(store_, "none"), 0);
  EXPECT_EQ(read_series(store_, "a", "none", {}).count, 0);
}

TEST_F(SeriesTest, GroupsWhatIsMore) {
  add("a", "loss", {1, 3, 8, 2, NAN, INFINITY, 5});
  const MetricSeries series = read_series(store_, "a", "loss", {.points = 3});
  EXPECT_EQ(series.count, 7);
  EXPECT_THAT(series.step, ElementsAre(2, 4, 6));  // 0 1 2 | 3 4 | 5 6
  EXPECT_THAT(series.value, ElementsAre(4, 2, 5));
  EXPECT_THAT(series.low, ElementsAre(1, 2, 5));
  EXPECT_THAT(series.high, ElementsAre(8, 2, 5));
  const MetricSeries one = read_series(store_, "a", "loss", {.points = 1});
  EXPECT_THAT(one.step, ElementsAre(6));
  EXPECT_THAT(one.high, ElementsAre(8));
}

TEST_F(SeriesTest, HasTheStepsOfARange) {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), 0);
  add("a", "loss", values);
  const MetricSeries part =
      read_series(store_, "a", "loss", {.points = 1000, .from_step = 10, .to_step = 12});
  EXPECT_THAT(part.value, ElementsAre(10, 11, 12));
  const MetricSeries end = read_series(store_, "a", "loss", {.points = 2, .from_step = 96});
  EXPECT_EQ(end.count, 4);
  EXPECT_THAT(end.step, ElementsAre(97, 99));
}

TEST_F(SeriesTest, ManyValuesBecomeAsManyPointsAsAskedFor) {
  std::vector<double> values(10'007, 1.0);
  values[5000] = 100;
  add("a", "loss", values);
  const MetricSeries series = read_series(store_, "a", "loss", {.points = 1000});
  EXPECT_EQ(series.value.size(), 1000U);
  EXPECT_THAT(series.low, Each(1));
  EXPECT_EQ(std::count(series.high.begin(), series.high.end(), 100), 1);
  EXPECT_EQ(series.step.back(), 10'006);
  EXPECT_TRUE(std::is_sorted(series.step.begin(), series.step.end()));
}

TEST_F(SeriesTest, TrendEndsWithTheNewestValue) {
  EXPECT_FALSE(read_trend(store_, "a", 32));
  add("a", "accuracy", {0.5});
  EXPECT_EQ(read_trend(store_, "a", 32)->name, "accuracy");
  add("a", "train_loss", {7, 6});
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 0);
  add("b", "loss", values);
  const auto few = read_trend(store_, "a", 32);
  EXPECT_EQ(few->name, "train_loss");
  EXPECT_THAT(few->spark, ElementsAre(7, 6));
  EXPECT_EQ(few->step, 1);
  const auto many = read_trend(store_, "b", 32);
  EXPECT_EQ(many->value, 999);
  EXPECT_EQ(many->step, 999);
  ASSERT_EQ(many->spark.size(), 32U);
  EXPECT_EQ(many->spark.front(), 0);
  EXPECT_EQ(many->spark.back(), 999);
  EXPECT_TRUE(std::is_sorted(many->spark.begin(), many->spark.end()));
}

TEST(MainMetric, IsALossWhereThereIsOne) {
  EXPECT_EQ(main_metric({}), "");
  EXPECT_EQ(main_metric({"accuracy", "speed"}), "accuracy");
  EXPECT_EQ(main_metric({"accuracy", "val_loss"}), "val_loss");
  EXPECT_EQ(main_metric({"a_loss", "loss"}), "loss");
  EXPECT_EQ(main_metric({"loss", "train/loss", "val_loss"}), "train/loss");
}

TEST_F(SeriesTest, ReadersSeeOneMoment) {
  add("a", "loss", {1});
  StoreReaders readers(root_.path());
  const std::string seen = readers.read([&](RunStore& store) {
    const auto before = last_metric(store, "a");
    add("a", "loss", {2});
    return fmt::format("{} {}", before, last_metric(store, "a"));
  });
  EXPECT_EQ(seen, "1 1");
  EXPECT_EQ(readers.read([](RunStore& store) { return last_metric(store, "a"); }), 2);
  EXPECT_THROW(readers.read([](RunStore&) -> int { throw InvalidInput("x"); }), InvalidInput);
  EXPECT_EQ(readers.read([](RunStore& store) { return last_metric(store, "a"); }), 2);
}

}  // namespace
}  // namespace cohort::service
