#pragma once

#include <functional>

#include "cohort/engine/kubernetes/cluster_access.h"
#include "cohort/engine/kubernetes/options.h"

namespace cohort::engine::kubernetes {

// What the engine needs. A value.
struct KubernetesSetup {
  // Where the cluster is; asked when the first job comes, and again as long as it throws
  // InvalidInput. Empty: there is none.
  std::function<ClusterAccess()> access;
  ReadWords read_words;  // never empty where `access` is given
  PodOptions pods;
};

}  // namespace cohort::engine::kubernetes
