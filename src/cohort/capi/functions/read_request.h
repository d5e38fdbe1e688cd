#pragma once

#include <cstdint>
#include <vector>

#include "cohort/capi/cohort_c.h"
#include "cohort/capi/execution/request.h"
#include "cohort/collective/reduction/tree.h"

namespace cohort::capi {

// The request of rank `rank` of a set of `size`. Throws InvalidInput for memory that is missing;
// check_signature() finds the rest.
RequestRef read_request(const cohort_request& asked, int rank, int size);

// The nodes of a rank's run of shards.
std::vector<collective::Subtree> shard_nodes(int rank, int size, int shards);

// cohort_shard_add.
void add_shards(std::int32_t dtype, const void* a, const void* b, void* out, std::int64_t count);

}  // namespace cohort::capi
