#include "cohort/parallel/tensors/parameter_checksum.h"

#include <algorithm>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

std::vector<std::uint32_t> checksums_of(const NamedTensors& parameters) {
  std::vector<std::uint32_t> sums;
  for (const auto& [name, parameter] : parameters) {
    const torch::Tensor values = parameter.detach().to(torch::kCPU).contiguous();
    sums.push_back(crc32c(values.data_ptr(), values.nbytes()));
  }
  return sums;
}

}  // namespace

void expect_same_parameters(collective::Group& group, const NamedTensors& parameters) {
  if (group.size() == 1) return;
  const std::vector<std::uint32_t> mine = checksums_of(parameters);
  const std::size_t count = mine.size();
  std::vector<std::uint32_t> all(count * static_cast<std::size_t>(group.size()));
  group.all_gather(mine.data(), all.data(), count, collective::DataType::i32);
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto other = all.begin() + rank * static_cast<std::ptrdiff_t>(count);
    const auto [first, differs] =
        std::mismatch(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), other);
    if (first == all.begin() + static_cast<std::ptrdiff_t>(count)) continue;
    throw InvalidInput(
        fmt::format("ranks 0 and {} train with different weights: {} is not the same on both", rank,
                    parameters[static_cast<std::size_t>(first - all.begin())].first),
        {.advice = "Call broadcast_parameters(context, *net) before the first backward()."});
  }
}

}  // namespace cohort::parallel
