#include "cohort/report/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cohort::report {
namespace {

const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all;
    std::transform(positive.rbegin(), positive.rend(), std::back_inserter(all),
                   [](double limit) { return -limit; });
    all.push_back(0.0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

}  // namespace

Histogram::Histogram()
    : buckets_(bucket_limits().size()),
      min_(std::numeric_limits<double>::max()),
      max_(std::numeric_limits<double>::lowest()) {}

template <typename T>
void Histogram::add_all(std::span<const T> values) {
  const auto& limits = bucket_limits();
  for (T single : values) {
    double value = single;
    if (!std::isfinite(value)) {
      ++non_finite_;
      continue;
    }
    // A value equal to a limit belongs to the bucket above it; the largest double has none above.
    auto limit = std::upper_bound(limits.begin(), limits.end() - 1, value);
    ++buckets_[static_cast<std::size_t>(limit - limits.begin())];
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    sum_ += value;
    sum_of_squares_ += value * value;
    ++count_;
  }
}

void Histogram::add(std::span<const float> values) { add_all(values); }
void Histogram::add(std::span<const double> values) { add_all(values); }

Proto Histogram::encode() const {
  // Readers put the least value in place of the first bucket's left limit, and the greatest in
  // place of the last one's right: an empty bucket at either end would then run backwards.
  auto is_used = [](double bucket) { return bucket > 0; };
  auto first = std::find_if(buckets_.begin(), buckets_.end(), is_used);
  auto last = std::find_if(buckets_.rbegin(), buckets_.rend(), is_used).base();
  std::vector<double> limits, counts;
  for (auto bucket = first; bucket < last; ++bucket) {
    if (*bucket == 0 && bucket[1] == 0) continue;
    limits.push_back(bucket_limits()[static_cast<std::size_t>(bucket - buckets_.begin())]);
    counts.push_back(*bucket);
  }
  Proto proto;
  proto.number(1, count_ ? min_ : 0.0)
      .number(2, count_ ? max_ : 0.0)
      .number(3, static_cast<double>(count_))
      .number(4, sum_)
      .number(5, sum_of_squares_)
      .numbers(6, limits)
      .numbers(7, counts);
  return proto;
}

}  // namespace cohort::report
