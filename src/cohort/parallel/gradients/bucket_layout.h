#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cohort::parallel {

// Where one parameter's gradient lies in its bucket, in elements.
struct BucketEntry {
  int parameter = 0;
  std::size_t offset = 0;
  std::size_t elements = 0;
};

struct BucketLayout {
  torch::ScalarType dtype = torch::kFloat;
  std::size_t elements = 0;  // with the gaps that align entries to 64 bytes
  std::vector<BucketEntry> entries;
};

struct BucketSizes {
  std::size_t first_bytes = 0;  // of the first bucket of a dtype
  std::size_t bytes = 0;        // of the others; a larger parameter has a bucket of its own
  std::size_t own_bytes = 0;    // from here on a parameter has one in any case
};

// Cuts `parameters`, taken in the order in which their gradients are expected (`order`: all
// indices, once each), into buckets of one dtype. Buckets stand in the order in which they are
// expected to be full. Pure.
std::vector<BucketLayout> lay_out_buckets(std::span<const torch::Tensor> parameters,
                                          std::span<const int> order, const BucketSizes& sizes);

}  // namespace cohort::parallel
