#include "cohort/parallel/gradients/bucket_layout.h"

#include <algorithm>
#include <map>

namespace cohort::parallel {

namespace {

struct Open {
  BucketLayout layout;
  std::size_t limit = 0;  // bytes
  std::size_t last = 0;   // position in `order` of its latest entry
};

}  // namespace

std::vector<BucketLayout> lay_out_buckets(std::span<const torch::Tensor> parameters,
                                          std::span<const int> order, const BucketSizes& sizes) {
  std::vector<Open> closed;
  std::map<torch::ScalarType, Open> open;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const torch::Tensor& parameter = parameters[static_cast<std::size_t>(order[position])];
    const torch::ScalarType dtype = parameter.scalar_type();
    const std::size_t element = parameter.element_size();
    const std::size_t line = 64 / element;
    const auto elements = static_cast<std::size_t>(parameter.numel());
    const std::size_t padded = (elements + line - 1) / line * line;

    auto [it, is_new] = open.try_emplace(dtype);
    Open& bucket = it->second;
    if (is_new) bucket = {{dtype, 0, {}}, sizes.first_bytes, position};
    const bool own = elements * element >= sizes.own_bytes;
    if (!bucket.layout.entries.empty() &&
        (own || (bucket.layout.elements + padded) * element > bucket.limit)) {
      closed.push_back(std::move(bucket));
      bucket = {{dtype, 0, {}}, sizes.bytes, position};
    }
    bucket.layout.entries.push_back({order[position], bucket.layout.elements, elements});
    bucket.layout.elements += padded;
    bucket.last = position;
    if (own) {
      bucket.layout.elements = elements;
      bucket.limit = 0;
    }
  }
  for (auto& [dtype, bucket] : open) closed.push_back(std::move(bucket));
  std::sort(closed.begin(), closed.end(),
            [](const Open& a, const Open& b) { return a.last < b.last; });
  std::vector<BucketLayout> layouts;
  for (Open& bucket : closed) layouts.push_back(std::move(bucket.layout));
  return layouts;
}

}  // namespace cohort::parallel
