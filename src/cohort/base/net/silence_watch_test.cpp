#include "cohort/base/net/silence_watch.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using std::chrono::milliseconds;

constexpr SilenceWatch::TimePoint at(int ms) {
  return SilenceWatch::TimePoint(milliseconds(100'000 + ms));
}

TEST(SilenceWatch, EndsWhenNothingWasHeardForTheLimit) {
  SilenceWatch watch(milliseconds(800), at(0));
  for (int ms = 0; ms < 800; ms += 200) EXPECT_FALSE(watch.is_over(at(ms), at(-500))) << ms;
  EXPECT_TRUE(watch.is_over(at(800), at(-500)));
}

TEST(SilenceWatch, TellsHowLongItHasLasted) {
  SilenceWatch watch(milliseconds(800), at(0));
  EXPECT_FALSE(watch.is_over(at(300), at(-500)));
  EXPECT_EQ(watch.lasted(at(-500)), milliseconds(300));
  EXPECT_EQ(watch.lasted(at(100)), milliseconds(200));
}

TEST(SilenceWatch, GoesOnAsLongAsSomethingIsHeard) {
  SilenceWatch watch(milliseconds(800), at(0));
  for (int ms = 0; ms < 5000; ms += 200) EXPECT_FALSE(watch.is_over(at(ms), at(ms - 700))) << ms;
}

TEST(SilenceWatch, TimeInWhichThisProcessWasStoppedDoesNotCount) {
  SilenceWatch watch(milliseconds(800), at(0));
  EXPECT_FALSE(watch.is_over(at(200), at(0)));
  EXPECT_FALSE(watch.is_over(at(60'000), at(0)));
  EXPECT_FALSE(watch.is_over(at(60'400), at(0)));
  EXPECT_FALSE(watch.is_over(at(60'600), at(0)));
  EXPECT_TRUE(watch.is_over(at(60'800), at(0)));
}

TEST(SilenceWatch, APeerWhoseTurnItIsNotMayBeSilent) {
  const auto never = SilenceWatch::TimePoint::max();
  SilenceWatch watch(milliseconds(800), at(0));
  for (int ms = 0; ms <= 2000; ms += 200) EXPECT_FALSE(watch.is_over(at(ms), never)) << ms;
  EXPECT_FALSE(watch.is_over(at(2200), at(0)));
}

TEST(SilenceWatch, WithoutALimitNothingIsTooLong) {
  SilenceWatch watch(milliseconds(0), at(0));
  EXPECT_FALSE(watch.is_over(at(1'000'000), at(0)));
  EXPECT_EQ(watch.next_look(), SilenceWatch::TimePoint::max());
}

}  // namespace
}  // namespace cohort
