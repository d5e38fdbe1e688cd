#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/model/placement.h"
#include "cohort/ps/state/slice_shape.h"

namespace cohort::ps {

// Neighbouring elements of a slice that have the same rule.
struct RuleRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::size_t group = 0;
};

// One server's share of a model's dense parameters, before there is memory for it. A value.
struct ServerShare {
  ServerShare(const ModelSpec& spec, int server, int servers);

  std::vector<Slice> slices;  // by local number
  std::vector<int> numbers;   // in the placement
  std::vector<SliceShape> shapes;
  std::vector<std::vector<RuleRun>> runs;  // of each slice
};

}  // namespace cohort::ps
