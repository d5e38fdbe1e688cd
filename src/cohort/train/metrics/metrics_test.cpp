#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/loop/measured_sums.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/metrics/expected_values_test.h"
#include "cohort/train/metrics/means.h"
#include "cohort/train/metrics/roc_auc.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The data of tests/train/metric_values.py.
constexpr std::int64_t kSamples = 500, kClasses = 4, kLabels = 3;

std::uint32_t mixed(std::uint64_t i) {
  auto x = static_cast<std::uint32_t>(i * 2654435761u + 40503u);
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return x >> 8;
}

double unit(std::int64_t i) { return mixed(static_cast<std::uint64_t>(i)) / 16777216.0; }

Loss classes_of(std::int64_t first, std::int64_t count) {
  const auto targets = torch::empty({count}, torch::kInt64);
  const auto scores = torch::empty({count, kClasses}, torch::kFloat64);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t i = first + row;
    targets[row] = static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(i)) % kLabels);
    for (std::int64_t c = 0; c < kClasses; ++c)
      scores[row][c] =
          unit(1000 + kClasses * i + c) + (c == targets[row].item<std::int64_t>() ? 0.25 : 0.0);
  }
  return {.mean = torch::ones({}), .output = scores, .target = targets};
}

Loss chances_of(std::int64_t first, std::int64_t count) {
  Loss loss = classes_of(first, count);
  loss.target = loss.target.remainder(2);
  loss.output = torch::empty({count}, torch::kFloat64);
  for (std::int64_t row = 0; row < count; ++row)
    loss.output[row] = 0.75 * unit(9000 + first + row) + 0.25 * loss.target[row].item<double>();
  const auto target = loss.target.to(torch::kFloat64);
  loss.mean = torch::binary_cross_entropy(loss.output, target);
  loss.values = {{"error", (loss.output - target).abs().mean()}};
  return loss;
}

using Made = Loss (*)(std::int64_t first, std::int64_t count);

// All the data, as so many items of different sizes.
Sums sums_of(const std::vector<Metric>& metrics, Made made, std::int64_t items = 1,
             MeasuredSums::CountsIn counts = MeasuredSums::CountsIn::each_item) {
  MeasuredSums measured(metrics);
  measured.clear(MeasuredSums::What::all, counts);
  for (std::int64_t i = 0; i < items; ++i) {
    measured.begin_item();
    const std::int64_t first = i * i * kSamples / (items * items);
    const std::int64_t end = (i + 1) * (i + 1) * kSamples / (items * items);
    measured.add(made(first, end - first), end - first);
  }
  Sums total(metrics);
  for (const Sums& sums : measured.read()) total.add(sums);
  return total;
}

double value_of(const Metric& metric, Made made, const std::string& name) {
  return sums_of({metric}, made, 7).logs({metric}).at(name);
}

double expected(const std::string& name) { return testing::expected_values().at(name); }

TEST(Metrics, HaveTheValuesOfScikitLearn) {
  EXPECT_DOUBLE_EQ(value_of(accuracy(), classes_of, "accuracy"), expected("accuracy"));
  EXPECT_DOUBLE_EQ(value_of(accuracy(0.5), chances_of, "accuracy"), expected("binary_accuracy"));
  EXPECT_DOUBLE_EQ(value_of(top_k_accuracy(2), classes_of, "top_2_accuracy"),
                   expected("top_2_accuracy"));
  EXPECT_DOUBLE_EQ(value_of(absolute_error(), chances_of, "mae"), expected("mae"));
  EXPECT_DOUBLE_EQ(value_of(squared_error(), chances_of, "mse"), expected("mse"));
  EXPECT_DOUBLE_EQ(value_of(root_squared_error(), chances_of, "rmse"), expected("rmse"));
  EXPECT_NEAR(value_of(perplexity(), chances_of, "perplexity"), expected("perplexity"), 1e-12);
  EXPECT_NEAR(value_of(mean_of("error"), chances_of, "error"), expected("mae"), 1e-12);
}

TEST(Metrics, OfClassesHaveTheValuesOfScikitLearn) {
  using Make = Metric (*)(const ClassMetricOptions&);
  for (const auto& [name, make] : std::map<std::string, Make>{
           {"f1", f1_score}, {"precision", precision_score}, {"recall", recall_score}}) {
    EXPECT_DOUBLE_EQ(value_of(make({.threshold = 0.5}), chances_of, name),
                     expected(name + "_binary"));
    const std::map<std::string, Average> averages{
        {"micro", Average::micro}, {"macro", Average::macro}, {"weighted", Average::weighted}};
    for (const auto& [average, how] : averages)
      EXPECT_DOUBLE_EQ(value_of(make({.classes = kClasses, .average = how}), classes_of, name),
                       expected(name + "_" + average))
          << average;
    const Metric each = make({.classes = kClasses, .average = Average::none});
    for (const std::string& log : each.log_names())
      EXPECT_DOUBLE_EQ(value_of(each, classes_of, log), expected(log)) << log;
    EXPECT_EQ(each.log_names().size(), 4u);
  }
}

TEST(Metrics, AreaUnderTheCurveIsThatOfProbabilitiesInBins) {
  const double binned = value_of(roc_auc({.logits = false}), chances_of, "auc");
  EXPECT_DOUBLE_EQ(binned, expected("auc_in_1000_bins"));
  EXPECT_NEAR(binned, expected("auc"), 1e-3);
  // Of logits: the same order, other bins.
  const auto logits_of = [](std::int64_t first, std::int64_t count) {
    Loss loss = chances_of(first, count);
    loss.output = torch::logit(loss.output);
    return loss;
  };
  EXPECT_NEAR(value_of(roc_auc({.bins = 100000}), logits_of, "auc"), expected("auc"), 1e-4);
  const auto halved = [](std::int64_t first, std::int64_t count) {
    Loss loss = classes_of(first, count);
    loss.output = loss.output / 2;
    return loss;
  };
  EXPECT_NEAR(value_of(roc_auc({.classes = kClasses, .bins = 64, .logits = false}), halved, "auc"),
              expected("auc_one_against_the_rest"), 1e-12);
}

TEST(Metrics, ConfusionMatrixIsATensorAndLogsItsCellsWhereItIsAskedTo) {
  const Metric silent = confusion_matrix({.classes = kClasses});
  EXPECT_TRUE(silent.log_names().empty());
  const torch::Tensor cells =
      sums_of({silent}, classes_of, 3).tensors({silent}, "val_").at("val_confusion");
  EXPECT_EQ(cells.sizes(), (std::vector<std::int64_t>{kClasses, kClasses}));
  const auto flat = cells.reshape({-1});
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    EXPECT_EQ(flat[i].item<std::int64_t>(),
              testing::expected_confusion()[static_cast<std::size_t>(i)]);
  const Metric logged = confusion_matrix({.classes = kClasses, .log_cells = true});
  EXPECT_EQ(value_of(logged, classes_of, "confusion_1_2"), cells[1][2].item<double>());
}

// Counts are exact, however the data is split.
TEST(Metrics, ThatAreCountsDoNotDependOnHowTheDataIsSplit) {
  const std::vector<Metric> metrics{accuracy(), f1_score({.classes = 4, .average = Average::macro}),
                                    roc_auc({.classes = 4, .bins = 50}),
                                    confusion_matrix({.classes = 4})};
  const Sums whole = sums_of(metrics, classes_of);
  for (const auto where : {MeasuredSums::CountsIn::each_item, MeasuredSums::CountsIn::first_item})
    for (std::int64_t items : {2, 5, 23})
      EXPECT_EQ(sums_of(metrics, classes_of, items, where).counts, whole.counts) << items;
  EXPECT_EQ(whole.values.size(), 1u);  // the loss
}

TEST(Metrics, TakeTheClassDimensionSecondOrLastAndPassIgnoredTargetsOver) {
  const Loss flat = classes_of(0, 60);
  const auto measured = [](const Metric& metric, const torch::Tensor& output,
                           const torch::Tensor& target) {
    return metric.stateful->measure({.mean = torch::ones({}), .output = output, .target = target});
  };
  for (const Metric& metric :
       {accuracy(), top_k_accuracy(3), confusion_matrix({.classes = 4}),
        f1_score({.classes = 4, .average = Average::macro}), roc_auc({.classes = 4, .bins = 10})}) {
    const auto want = measured(metric, flat.output, flat.target);
    const auto last = flat.output.view({10, 6, 4});
    const auto targets = flat.target.view({10, 6});
    EXPECT_TRUE(torch::equal(measured(metric, last, targets), want)) << metric.name;
    EXPECT_TRUE(torch::equal(measured(metric, last.permute({0, 2, 1}), targets), want))
        << metric.name;
    const auto more = torch::cat({flat.target, torch::full({5}, -100, torch::kInt64)});
    EXPECT_TRUE(torch::equal(
        measured(metric, torch::cat({flat.output, flat.output.slice(0, 0, 5)}), more), want))
        << metric.name;
  }
}

TEST(Metrics, OfNothingAreZero) {
  for (const Metric& metric :
       {accuracy(), f1_score(), roc_auc(), perplexity(), absolute_error(),
        f1_score({.classes = 3, .average = Average::weighted}), mean_of("error")})
    for (const auto& [name, value] : Sums(std::vector<Metric>{metric}).logs({metric}))
      EXPECT_EQ(value, 0) << name;
}

TEST(Metrics, MeansOfWeightZeroCountForNothing) {
  MeasuredSums measured({perplexity(), mean_of("part")});
  measured.begin_item();
  const auto nan = torch::full({}, std::nan(""));
  measured.add({.mean = nan, .weight = 0, .values = {{"part", nan}}}, 3);
  measured.add({.mean = torch::full({}, 2.0), .weight = 10, .values = {{"part", torch::ones({})}}},
               3);
  const Logs logs = measured.read().at(0).logs({perplexity(), mean_of("part")});
  EXPECT_DOUBLE_EQ(logs.at("loss"), 2);
  EXPECT_DOUBLE_EQ(logs.at("perplexity"), std::exp(2.0));
  EXPECT_DOUBLE_EQ(logs.at("part"), 1);
}

// What is logged while a metric measures `loss`, or the refusal.
std::string refusal_of(const Metric& metric, const Loss& loss) {
  return message_of<InvalidInput>([&] {
    MeasuredSums measured({metric});
    measured.begin_item();
    measured.add(loss, 3);
    measured.read().at(0).logs({metric});
  });
}

TEST(Metrics, NameWhatDoesNotFit) {
  const Loss three{.mean = torch::ones({}),
                   .output = torch::eye(3),
                   .target = torch::tensor({0, 1, 7}, torch::kInt64)};
  EXPECT_THAT(refusal_of(f1_score({.classes = 4, .average = Average::macro}), three),
              AllOf(HasSubstr("metric 'f1' cannot compare an output of shape [3, 3]"),
                    HasSubstr("made for 4 classes"), HasSubstr(".classes = 3")));
  for (const Metric& metric : {f1_score({.classes = 3, .average = Average::macro}),
                               confusion_matrix({.classes = 3}), roc_auc({.classes = 3})})
    EXPECT_THAT(refusal_of(metric, three), HasSubstr("1 targets are none of its 3 classes"))
        << metric.name;
  EXPECT_THAT(refusal_of(accuracy(), {.mean = torch::ones({})}),
              HasSubstr("metric 'accuracy' measures the output and the target"));
  EXPECT_THAT(refusal_of(mean_of("fake"), {.mean = torch::ones({}), .values = {{"real", {}}}}),
              AllOf(HasSubstr("gives no value 'fake'; it gives real")));
  EXPECT_THAT(message_of<InvalidInput>([] { f1_score({.classes = 3}); }),
              HasSubstr("Average::binary is for 2 classes, not 3"));
  EXPECT_THAT(message_of<InvalidInput>([] { roc_auc({.bins = 1}); }), HasSubstr("bins"));
}

// A state of one's own, as the comment of StatefulMetric has it; or one that is none.
struct Specificity : StatefulMetric {
  explicit Specificity(State state = State::counts, std::size_t size = 2)
      : StatefulMetric("specificity", state, size) {}
  torch::Tensor measure(const Loss& batch) const override {
    const auto negative = batch.target.eq(0);
    const auto right = negative & batch.output.argmax(1).eq(0);
    return torch::stack({right.sum(), negative.sum()});
  }
  Logs compute(std::span<const double> total) const override {
    return {{"", total[1] > 0 ? total[0] / total[1] : 0}, {"seen", total[1]}};
  }
};

struct HalfCounts final : Specificity {
  torch::Tensor measure(const Loss& batch) const override {
    return Specificity::measure(batch) / 2.0;
  }
};

TEST(Metrics, OfOnesOwnTakeTwoMethods) {
  Metric metric = std::make_shared<Specificity>();
  metric.name = "empty";
  EXPECT_THAT(metric.log_names(), UnorderedElementsAre("empty", "empty_seen"));
  EXPECT_DOUBLE_EQ(value_of(metric, classes_of, "empty"), expected("recall_0"));
  EXPECT_THAT(
      refusal_of(std::make_shared<Specificity>(StatefulMetric::State::counts, 3), classes_of(0, 3)),
      HasSubstr("measured a tensor of shape [2], its state has 3 numbers"));
  EXPECT_THAT(refusal_of(std::make_shared<HalfCounts>(), classes_of(0, 3)),
              AllOf(HasSubstr("keeps counts, but measured a tensor of type Float"),
                    HasSubstr("State::sums")));
  EXPECT_THAT(message_of<InvalidInput>([] { Metric(std::shared_ptr<Specificity>()); }),
              HasSubstr("a metric is null"));
}

}  // namespace
}  // namespace cohort::train
