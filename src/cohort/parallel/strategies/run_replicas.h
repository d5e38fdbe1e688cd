#pragma once

#include <functional>
#include <vector>

#include "cohort/parallel/gradients/replica.h"

namespace cohort::parallel {

// Strategy::run for these replicas: the first on the calling thread, each other one on a thread of
// its own, all of them ended on return. `threads`: LibTorch's intra-op threads a replica.
void run_replicas(const std::vector<Replica>& replicas, int threads,
                  const std::function<void(const Replica&)>& body);

}  // namespace cohort::parallel
