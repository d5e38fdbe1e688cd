#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cohort::ps {

// What one update contains: pushes of these workers, up to these sequences.
using LedgerEntries = std::vector<std::pair<int, std::uint64_t>>;

// One update of one slice or table of a server, with all that is needed to make it again elsewhere:
// what a log writes and a replica receives. A view: the payload is the caller's.
struct UpdateRecord {
  enum class Kind : std::uint8_t { dense, sparse };
  Kind kind = Kind::dense;
  int target = 0;                      // local slice or table number
  std::uint64_t version = 0;           // that it makes
  std::vector<double> learning_rates;  // by group
  LedgerEntries ledger;
  // dense: the gradient, averaged; empty: version and ledger advance, nothing else changes. sparse:
  // RowGradients::encode().
  std::span<const std::byte> payload;
};

}  // namespace cohort::ps
