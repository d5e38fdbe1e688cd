#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

// Times that callers give, cut to what calculations with them cannot overflow.
namespace cohort::capi {

constexpr std::chrono::milliseconds kLongestTime = std::chrono::hours(10 * 365 * 24);
constexpr double kLongestSeconds = 3e8;

inline std::chrono::milliseconds time_of_ms(std::int64_t ms) {
  return std::min(std::chrono::milliseconds(ms), kLongestTime);
}

inline std::chrono::microseconds time_of_us(std::int64_t us) {
  return std::min<std::chrono::microseconds>(std::chrono::microseconds(us), kLongestTime);
}

// 0 for what is not positive, NaN among it; else 1 ms at least.
inline std::chrono::milliseconds time_of_s(double seconds) {
  if (!(seconds > 0)) return std::chrono::milliseconds(0);
  const double ms = std::min(seconds, kLongestSeconds) * 1000;
  return std::chrono::milliseconds(std::max<std::int64_t>(static_cast<std::int64_t>(ms), 1));
}

}  // namespace cohort::capi
