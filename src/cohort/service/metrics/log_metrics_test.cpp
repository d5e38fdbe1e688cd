#include "cohort/service/metrics/log_metrics.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"

namespace cohort::service {
namespace {

TEST(LogMetrics, FindsValuesAndSteps) {
  const LogMetrics metrics({{.name = "loss", .regex = R"(loss[=:] *([-+0-9.einfa]+))"},
                            {.name = "rate", .regex = R"(step (?P<step>\d+).* rate=(\S+))"},
                            {.name = "acc", .regex = R"(acc=(\S+) at (?P<step>\d+)$)"}});
  EXPECT_TRUE(metrics.problems().empty());
  auto found = metrics.find("epoch 1 loss: 0.25 acc=1e-3 at 77");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].definition, 0u);
  EXPECT_EQ(found[0].value, 0.25);
  EXPECT_FALSE(found[0].step);
  EXPECT_EQ(found[1].definition, 2u);
  EXPECT_EQ(found[1].value, 0.001);
  EXPECT_EQ(found[1].step, 77);
  found = metrics.find("step 12 of 100: rate=+3.5");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value, 3.5);
  EXPECT_EQ(found[0].step, 12);
  EXPECT_TRUE(std::isnan(metrics.find("loss=nan").at(0).value));
  EXPECT_TRUE(metrics.find("loss=e").empty());
  EXPECT_TRUE(metrics.find("").empty());
  EXPECT_TRUE(metrics.find("step 99999999999999999999 rate=1").at(0).step == std::nullopt);
}

TEST(LogMetrics, SaysWhichExpressionIsNone) {
  const LogMetrics metrics({{.name = "a", .regex = "(["},
                            {.name = "b", .regex = "loss"},
                            {.name = "c", .regex = "(?P<step>[0-9]+)"},
                            {.name = "d", .regex = "d=([0-9]+)"}});
  ASSERT_EQ(metrics.problems().size(), 3u);
  EXPECT_THAT(metrics.problems()[0], testing::HasSubstr("metric 'a': missing"));
  EXPECT_THAT(metrics.problems()[1], testing::HasSubstr("metric 'b': 'loss' needs a group"));
  EXPECT_THAT(metrics.problems()[2], testing::HasSubstr("metric 'c'"));
  EXPECT_EQ(metrics.find("loss 3 d=4").at(0).value, 4);
}

TEST(LogMetrics, ExpressionsThatFindNothingAreRefusedTogether) {
  EXPECT_NO_THROW(require_expressions({{.name = "d", .regex = "d=([0-9]+)"}}));
  const auto refusal = message_of<InvalidInput>([] {
    require_expressions({{.name = "a", .regex = "([\n"}, {.name = "b", .regex = "loss"}});
  });
  EXPECT_THAT(refusal, testing::HasSubstr("metric_definitions: metric 'a': missing"));
  EXPECT_THAT(refusal, testing::HasSubstr("; metric 'b': 'loss' needs a group"));
  EXPECT_THAT(refusal, testing::Not(testing::HasSubstr("\n")));
}

TEST(LogMetrics, TakesLinearTimeWhateverTheExpression) {
  const std::vector<jobspec::MetricDefinition> one = {{.name = "x", .regex = "(a*)*b([0-9])"}};
  const LogMetrics metrics(one);
  const std::string line(std::size_t{1} << 20, 'a');
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(metrics.find(line).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSanitized ? 20 : 2));
}

}  // namespace
}  // namespace cohort::service
