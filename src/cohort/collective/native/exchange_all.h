#pragma once

#include "cohort/collective/native/leader_exchange.h"
#include "cohort/collective/native/partials.h"

namespace cohort::collective {

// all_reduce between leaders in one round: every leader sends its host's partials to every other,
// and each evaluates the rest of the tree for itself. Bytes that a leader with one subtree sends:
// B (H-1). Returns the mismatch, or "" with the result written.
std::string exchange_all(const Hosts& hosts, LeaderExchange& leaders, const Partials& own,
                         const Reduction& reduction, std::size_t count, std::byte* result,
                         Deadline deadline);

}  // namespace cohort::collective
