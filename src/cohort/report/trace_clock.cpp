#include "cohort/report/trace_clock.h"

#include <algorithm>
#include <ctime>

#include "cohort/base/error.h"

namespace cohort::report {

std::int64_t trace_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

ClockAlignment align_clocks(std::span<const ClockSample> samples) {
  if (samples.empty()) throw Error("clocks cannot be aligned without a sample");
  auto round_trip = [](const ClockSample& sample) { return sample.received - sample.sent; };
  auto best = std::min_element(samples.begin(), samples.end(), [&](const auto& a, const auto& b) {
    return round_trip(a) < round_trip(b);
  });
  std::int64_t shortest = round_trip(*best);
  if (shortest < 0)
    throw Error(fmt::format("a clock sample was received {} ns before it was sent", -shortest));
  std::int64_t middle = best->sent + shortest / 2;
  return {.offset_ns = best->remote - middle, .uncertainty_ns = (shortest + 1) / 2};
}

}  // namespace cohort::report
