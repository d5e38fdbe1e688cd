#pragma once

#include <cstdint>

namespace cohort::train {

// What augmentation draws from, besides the sample's number. Never the rank.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

}  // namespace cohort::train
