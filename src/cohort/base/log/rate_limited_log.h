#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"

namespace cohort {

struct RateLimit {
  int lines = 5;
  std::chrono::seconds period{10};
};

// Warnings that unauthenticated peers can cause at will, as refused connections: the first few of
// a period are logged, the others counted, so that the log cannot be flooded. The number of those
// left out is logged with the next warning after the period, or when this object goes:
//   NAME: 31495 more WHAT in the last 10 s
// Confined to one thread.
class RateLimitedLog {
 public:
  using Clock = Deadline::Clock;

  // `what` is what is counted: "connections refused".
  RateLimitedLog(std::string name, std::string what, RateLimit limit = {});
  ~RateLimitedLog();
  RateLimitedLog(const RateLimitedLog&) = delete;
  RateLimitedLog& operator=(const RateLimitedLog&) = delete;

  // Logs "NAME: TEXT", or counts it.
  void warning(std::string_view text, Clock::time_point now = Clock::now());
  std::uint64_t left_out() const { return left_out_; }  // since the last report

 private:
  void report(Clock::time_point now);

  std::string name_, what_;
  RateLimit limit_;
  Clock::time_point begin_{};
  int lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace cohort
