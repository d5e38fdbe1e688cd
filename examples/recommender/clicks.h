#pragma once

#include <cohort/cohort.h>

#include <cstdint>

namespace examples {

// Who clicked on what, made up from a seed: every user has a taste and every item a character, both
// hidden, and how well they agree makes a click likely. A sample is the keys of a user and of an
// item (int64 [2]: ids without order, as logs have them) and whether there was a click (0 or 1).
// Popular items are seen more often than others. Thread-safe.
class Clicks final : public cohort::Dataset {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::int64_t users = 20'000;
    std::int64_t items = 2'000;
    std::int64_t samples = 400'000;
    std::int64_t first = 0;  // number of the first sample: others for a test than for training
  };
  explicit Clicks(const Options& options);

  std::int64_t size() const override { return options_.samples; }
  cohort::Batch get(std::span<const std::int64_t> indices,
                    const cohort::train::DrawKey& key) const override;

 private:
  Options options_;
};

// How often a sample with a click is rated above one without: 0.5 for guesses, 1 for perfection.
double area_under_curve(const torch::Tensor& ratings, const torch::Tensor& clicked);

}  // namespace examples
