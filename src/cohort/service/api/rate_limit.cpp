#include "cohort/service/api/rate_limit.h"

#include <algorithm>

namespace cohort::service {

bool RateLimit::take(std::string_view user, Clock::time_point now) {
  auto found = buckets_.find(user);
  if (found == buckets_.end())
    found = buckets_.emplace(std::string(user), Bucket{burst_, now}).first;
  Bucket& bucket = found->second;
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  bucket.left = std::min(burst_, bucket.left + rate_ * seconds);
  bucket.at = now;
  if (bucket.left < 1) return false;
  bucket.left -= 1;
  return true;
}

}  // namespace cohort::service
