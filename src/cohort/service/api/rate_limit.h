#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace cohort::service {

// How many changes each user may ask for: `rate` a second, after a pause up to `burst` at once.
// Confined to one thread.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double rate, double burst) : rate_(rate), burst_(burst) {}

  // True, and one fewer is left; or false.
  bool take(std::string_view user, Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double left;
    Clock::time_point at;
  };
  double rate_;
  double burst_;
  std::map<std::string, Bucket, std::less<>> buckets_;  // as many as users have tokens
};

}  // namespace cohort::service
