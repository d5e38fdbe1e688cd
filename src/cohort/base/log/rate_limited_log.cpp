#include "cohort/base/log/rate_limited_log.h"

#include <utility>

#include "cohort/base/log/log.h"

namespace cohort {

RateLimitedLog::RateLimitedLog(std::string name, std::string what, RateLimit limit)
    : name_(std::move(name)), what_(std::move(what)), limit_(limit) {}

RateLimitedLog::~RateLimitedLog() { report(Clock::now()); }

void RateLimitedLog::warning(std::string_view text, Clock::time_point now) {
  if (lines_ == 0 || now - begin_ >= limit_.period) {
    report(now);
    begin_ = now;
    lines_ = 0;
  }
  if (lines_ >= limit_.lines) {
    ++left_out_;
    return;
  }
  ++lines_;
  log::write_without_waiting(log::Level::warning, fmt::format("{}: {}", name_, text));
}

void RateLimitedLog::report(Clock::time_point now) {
  if (left_out_ == 0) return;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(now - begin_).count();
  log::write_without_waiting(log::Level::warning,
                             fmt::format("{}: {} more {} in the last {} s", name_,
                                         std::exchange(left_out_, 0), what_, seconds));
}

}  // namespace cohort
