#include "cohort/service/queue/fair_shares.h"

#include <algorithm>
#include <cmath>

namespace cohort::service {

double FairShares::decay(std::int64_t duration) const {
  return std::exp2(-static_cast<double>(std::max<std::int64_t>(duration, 0)) /
                   static_cast<double>(half_life_));
}

double FairShares::average(const User& user, std::int64_t now) const {
  const double kept = decay(now - user.as_of);
  return user.average * kept + user.held * (1 - kept);
}

void FairShares::hold(std::string_view name, double share, std::int64_t now) {
  User& user = users_.try_emplace(std::string(name)).first->second;
  user.average = average(user, now);
  user.as_of = now;
  user.held = std::max(0.0, user.held + share);  // a sum of fractions leaves a rest
}

void FairShares::remember(std::string_view name, double share, std::int64_t from, std::int64_t to,
                          std::int64_t now) {
  if (to <= from) return;
  hold(name, 0, now);
  users_.find(name)->second.average += share * (decay(now - to) - decay(now - from));
}

double FairShares::standing(std::string_view name, std::int64_t now) const {
  const auto found = users_.find(name);
  return found == users_.end() ? 0 : average(found->second, now) + found->second.held;
}

}  // namespace cohort::service
