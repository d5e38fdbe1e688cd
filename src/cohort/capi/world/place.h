#pragma once

#include <span>
#include <string>
#include <vector>

namespace cohort::capi {

// Where a rank stands among the ranks of its world, as Horovod counts. A value.
struct Place {
  int local_rank = 0, local_size = 1;  // among the ranks of its host
  int cross_rank = 0, cross_size = 1;  // among the hosts that have a rank of this local rank
  bool homogeneous = true;             // every host has as many ranks
};

// hosts[r]: text that is equal for the ranks of one host. Pure.
Place place_of(int rank, std::span<const std::string> hosts);

}  // namespace cohort::capi
