#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/report/proto.h"

namespace cohort::report {

// Counts values in TensorFlow's default buckets (limits grow by a tenth from 1e-12 to 1e20, on both
// sides of 0), so that histograms of several steps and runs lie over each other in TensorBoard.
// Values that are not finite are counted apart: they have no bucket. Thread-compatible.
class Histogram {
 public:
  Histogram();
  void add(std::span<const float> values);
  void add(std::span<const double> values);

  std::uint64_t count() const { return count_; }  // finite values
  std::uint64_t non_finite() const { return non_finite_; }
  // tensorboard.HistogramProto; runs of empty buckets are one bucket, at the ends none.
  Proto encode() const;

 private:
  template <typename T>
  void add_all(std::span<const T> values);

  std::vector<double> buckets_;  // of each limit
  double min_, max_, sum_ = 0, sum_of_squares_ = 0;
  std::uint64_t count_ = 0, non_finite_ = 0;
};

}  // namespace cohort::report
