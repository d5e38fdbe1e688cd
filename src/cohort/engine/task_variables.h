#pragma once

#include "cohort/cluster/environment.h"

// What of its environment a task keeps. Pure functions.
namespace cohort::engine {

// mpirun hands its own role, which the launcher gave it, on to its ranks, which have others.
void forget_launcher(cluster::Environment& environment);

// What a container gets of this host's variables: those of the launcher and of mpirun, of NCCL and
// OpenMP, GPUs and proxies. The rest (PATH, HOME, LD_LIBRARY_PATH ...) is the image's.
cluster::Environment told_to_containers(const cluster::Environment& inherited);

}  // namespace cohort::engine
