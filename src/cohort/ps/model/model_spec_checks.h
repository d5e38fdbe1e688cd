#pragma once

#include <cstddef>
#include <cstdint>

#include "cohort/ps/model/model_spec.h"

namespace cohort::ps {

constexpr std::size_t kMaxSpecBytes = 4 << 20;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 40;  // of all blocks, or of one table
constexpr std::size_t kMaxBlocks = 1 << 16;
constexpr std::size_t kMaxParts = 1 << 17;  // of one block
constexpr std::size_t kMaxTables = 1 << 8;
constexpr std::size_t kMaxGroups = 1 << 12;
constexpr std::size_t kMaxNameBytes = 1 << 10;
constexpr int kMaxDimension = 1 << 16;
constexpr int kMaxWorkers = 1 << 16;
constexpr int kMaxShards = 1 << 20;

// Throws InvalidInput, with the value, for what does not fit together: parts that overlap or leave
// their block, groups that do not exist, rates that torch::optim would refuse, sizes over the
// limits above.
void check(const ModelSpec& spec);

}  // namespace cohort::ps
