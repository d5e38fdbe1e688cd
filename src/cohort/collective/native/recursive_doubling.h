#pragma once

#include "cohort/collective/native/leader_exchange.h"
#include "cohort/collective/native/partials.h"

namespace cohort::collective {

// all_reduce between leaders in ceil(log2 H) rounds, in each of which a leader talks to one other.
// Vocabulary: a **participant** is one host or, for as many of the first hosts as are more than the
// power of two below, two neighbours, of which the first one acts. A leader **knows** a set of
// ranks, as the partials of the maximal subtrees of that set.
//   1. A participant's second host gives its partials to the first.
//   2. In round k, participant s swaps what it knows with participant s xor 2^k and combines both:
//      neighbours that make up a subtree become one partial. Whatever the placement, a set's
//      maximal subtrees are all that its ranks need to say, so no order of addition changes.
//   3. The first host gives the result to the second.
// Bytes that a leader sends: B log2 H where hosts hold aligned runs of ranks; up to B n where ranks
// are interleaved and nothing combines before the end.
// Returns the mismatch, or "" with the result written.
std::string recursive_doubling(const Hosts& hosts, LeaderExchange& leaders, Partials& own,
                               const Reduction& reduction, std::size_t count, std::byte* result,
                               Deadline deadline);

}  // namespace cohort::collective
