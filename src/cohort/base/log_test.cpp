#include "cohort/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace cohort::log {
namespace {

using ::testing::ExitedWithCode;

// Each in a process of its own, since the level is read once.
void log_once_with(const char* level) {
  ::setenv("COHORT_LOG", level, 1);
  info("an info");
  std::exit(0);
}

class LogDeathTest : public ::testing::Test {
  void SetUp() override { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(LogDeathTest, ALevelThatIsNoneIsWarnedOfAndInfoIsUsed) {
  EXPECT_EXIT(log_once_with("bogus"), ExitedWithCode(0),
              "warning: COHORT_LOG is 'bogus', so info is used. Set it to debug, info, warning, "
              "error or off.\ncohort: an info");
}

TEST_F(LogDeathTest, ALevelThatIsOneIsTakenWithoutAWord) {
  EXPECT_EXIT(log_once_with("info"), ExitedWithCode(0), "^cohort: an info");
  EXPECT_EXIT(log_once_with("error"), ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace cohort::log
