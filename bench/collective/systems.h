#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace cohort::bench {

// (type, bytes, memory) -> microseconds of the slowest rank.
struct Timing {
  double min = 0, median = 0, p99 = 0;
};
using Timings = std::map<std::tuple<std::string, std::size_t, std::string>, Timing>;

// Each starts `ranks` processes, waits for them, and gathers what they printed. Throws Error when
// one of them failed.
Timings run_cohort(int ranks, bool full);
Timings run_cohort_tcp(int ranks);  // as if each rank had a host of its own
Timings run_mpi(int ranks, bool full);
Timings run_gloo(int ranks, bool full);
// CPU seconds a second of all ranks together while they wait in a barrier.
double run_cohort_idle(int ranks);

// False when the build had no MPI or Gloo, or there is no mpirun.
bool have_mpi();
bool have_gloo();

}  // namespace cohort::bench
