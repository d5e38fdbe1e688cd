#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/client/server_links.h"
#include "cohort/ps/client/value_reader.h"

namespace cohort::ps {

// A worker's steps: gradients go out as they are made, values come back slice by slice; rows of
// tables go to, and come from, the servers that have their keys. The calls are Client's, with its
// contract. Ownership: what it is given must outlive it.
class StepCalls {
 public:
  StepCalls(ServerLinks& links, const ClientLayout& layout, ValueReader& values)
      : links_(links), layout_(layout), values_(values) {}

  void begin_step(const StepStart& start);
  void push(int block, std::span<const std::byte* const> partials);
  StepOutcome finish_step(const StepEnd& end, std::span<const BlockRun> runs, Deadline deadline);

  void pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                 float* values, Deadline deadline);
  void push_rows(int table, std::span<const std::uint64_t> keys, std::span<const float> gradients);

 private:
  void push_slice(int slice, std::span<const std::byte* const> partials);
  const TableSpec& table_of(int table) const;
  // By server: which of the keys it has.
  std::vector<std::vector<std::size_t>> deal(std::span<const std::uint64_t> keys) const;

  ServerLinks& links_;
  const ClientLayout& layout_;
  ValueReader& values_;
  std::vector<int> ready_;  // slices that are being copied
};

}  // namespace cohort::ps
