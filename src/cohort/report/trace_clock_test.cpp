#include "cohort/report/trace_clock.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::report {
namespace {

TEST(AlignClocks, TheSampleWithTheShortestRoundTripDecides) {
  // The other clock is 1000 ahead; slow answers were held up on one way only.
  std::vector<ClockSample> samples{{0, 1900, 1000}, {2000, 3010, 2020}, {4000, 5005, 4400}};
  auto alignment = align_clocks(samples);
  EXPECT_EQ(alignment.offset_ns, 1000);
  EXPECT_EQ(alignment.uncertainty_ns, 10);
}

TEST(AlignClocks, TheTrueOffsetLiesWithinTheUncertainty) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> delay(100, 50'000), clock(-1'000'000'000, 1'000'000);
  for (int trial = 0; trial < 1000; ++trial) {
    std::int64_t offset = clock(random), now = 0;
    std::vector<ClockSample> samples;
    for (int i = 0; i < 8; ++i) {
      std::int64_t there = delay(random), back = delay(random);
      samples.push_back({now, now + there + offset, now + there + back});
      now += there + back;
    }
    auto alignment = align_clocks(samples);
    EXPECT_LE(std::abs(alignment.offset_ns - offset), alignment.uncertainty_ns);
  }
}

TEST(AlignClocks, ImpossibleSamplesAreRefused) {
  EXPECT_THROW(align_clocks({}), Error);
  std::vector<ClockSample> backwards{{10, 5, 9}};
  EXPECT_THROW(align_clocks(backwards), Error);
}

}  // namespace
}  // namespace cohort::report
