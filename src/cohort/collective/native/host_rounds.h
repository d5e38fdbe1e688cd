#pragma once

#include <cstddef>
#include <vector>

#include "cohort/collective/backend/call.h"
#include "cohort/collective/native/placement.h"

namespace cohort::collective {

// A run of elements that one host reduces for all.
struct HostBlock {
  int host = 0;
  std::size_t offset = 0;  // in every rank's input, in elements
  std::size_t count = 0;
  std::size_t at = 0;  // its first element among those of its round
};

// As much of a reduction between hosts as is under way as one thing. Its elements are its blocks',
// one after the other.
struct HostRound {
  std::size_t from = 0;      // where its results start in the output (of the whole, or of a run)
  std::size_t elements = 0;  // of all its blocks
  std::vector<HostBlock> blocks;
};

// How all_reduce, reduce (a slice of each round for every host) and reduce_scatter (a piece of the
// run of every rank, for that rank's host) are cut into rounds; the same on all ranks. Immutable.
class HostRounds {
 public:
  // Of what a host reduces in one round: enough to make messages cheap, and little enough for the
  // rounds under way to stay in the cache of one core.
  static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  // Of all blocks together, which many hosts would make large.
  static constexpr std::size_t kRoundBytes = std::size_t{8} << 20;

  // Keeps references to both.
  HostRounds(const Call& call, const Placement& placement);

  std::size_t count() const { return count_; }
  std::size_t most_elements() const;  // of any round
  HostRound round(std::size_t index) const;

 private:
  bool scatters() const { return call_.kind == CallKind::reduce_scatter; }

  const Call& call_;
  const Placement& placement_;
  int hosts_;
  std::size_t element_;
  std::size_t step_;  // elements of the output by which a round advances
  std::size_t count_;
};

}  // namespace cohort::collective
