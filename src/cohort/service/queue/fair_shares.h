#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cohort::service {

// Who has had how much of the machines. A share is a number from 0 to 1: the largest of the shares
// of all cores, of all memory and of all GPUs (the dominant share).
//
// The average of a user moves towards the share that is held, by half within each half-life:
//   average(t + d) = average(t) * 2^(-d / half_life) + held * (1 - 2^(-d / half_life))
// which is exact for whatever was held in between. The standing, by which users are compared, is
//   standing = average + held
// so that what a user holds right now counts at once, and what they held a day ago counts half.
//
// A value; pure; times are milliseconds of one clock that never steps back.
class FairShares {
 public:
  explicit FairShares(std::int64_t half_life) : half_life_(half_life) {}

  // `share` more (or less, when negative) is held from `now` on.
  void hold(std::string_view user, double share, std::int64_t now);
  // `share` was held from `from` to `to`, both before `now`: of a time before this object.
  void remember(std::string_view user, double share, std::int64_t from, std::int64_t to,
                std::int64_t now);
  double standing(std::string_view user, std::int64_t now) const;

 private:
  struct User {
    double average = 0;
    double held = 0;
    std::int64_t as_of = 0;
  };
  double decay(std::int64_t duration) const;
  double average(const User& user, std::int64_t now) const;

  std::int64_t half_life_;
  std::map<std::string, User, std::less<>> users_;
};

}  // namespace cohort::service
