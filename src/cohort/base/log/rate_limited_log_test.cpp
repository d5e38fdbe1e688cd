#include "cohort/base/log/rate_limited_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using std::chrono::seconds;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(RateLimitedLog, LogsTheFirstOfAPeriodAndCountsTheRest) {
  CaptureStderr();
  {
    RateLimitedLog log("the store", "connections refused", {.lines = 2, .period = seconds(10)});
    const auto begin = RateLimitedLog::Clock::time_point(seconds(1000));
    for (int i = 0; i < 100; ++i) log.warning("dropped a", begin + std::chrono::milliseconds(i));
    EXPECT_EQ(log.left_out(), 98u);
    log.warning("dropped b", begin + seconds(10));
    EXPECT_EQ(log.left_out(), 0u);
  }
  EXPECT_EQ(GetCapturedStderr(),
            "cohort: warning: the store: dropped a\n"
            "cohort: warning: the store: dropped a\n"
            "cohort: warning: the store: 98 more connections refused in the last 10 s\n"
            "cohort: warning: the store: dropped b\n");
}

TEST(RateLimitedLog, SaysAtItsEndWhatItLeftOut) {
  CaptureStderr();
  {
    RateLimitedLog log("the store", "connections refused", {.lines = 1, .period = seconds(10)});
    for (int i = 0; i < 4; ++i) log.warning("dropped");
  }
  EXPECT_THAT(GetCapturedStderr(), ::testing::HasSubstr("3 more connections refused in the last"));
}

}  // namespace
}  // namespace cohort
