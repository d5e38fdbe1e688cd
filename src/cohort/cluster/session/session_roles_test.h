#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/base/soon_test.h"
#include "cohort/cluster/session/session.h"

// For tests of sessions: roles in a cluster on this machine.
namespace cohort::cluster {

// A cluster on ports of this machine that are not used, as TF_CONFIG would tell it.
inline ClusterSpec local_cluster(int workers, int ps, int chiefs = 0) {
  auto addresses = [](int count) {
    std::vector<std::unique_ptr<StoreServer>> holders;
    std::vector<Address> result;
    for (int i = 0; i < count; ++i) {
      holders.push_back(std::make_unique<StoreServer>());
      result.push_back(holders.back()->address());
    }
    return result;
  };
  ClusterSpec cluster;
  auto all = addresses(workers + ps + chiefs);
  cluster.set(TaskType::worker, {all.begin(), all.begin() + workers});
  cluster.set(TaskType::ps, {all.begin() + workers, all.begin() + workers + ps});
  cluster.set(TaskType::chief, {all.begin() + workers + ps, all.end()});
  return cluster;
}

inline Role role_in(const ClusterSpec& cluster, TaskId task, bool chief_trains = true) {
  Role role;
  role.task = task;
  role.cluster = cluster;
  role.chief_trains = chief_trains;
  role.dialect = "TF_CONFIG";
  fill_ranks(role);
  return role;
}

inline SessionOptions fast(std::optional<Secret> secret = std::nullopt) {
  return {.timeout = std::chrono::seconds(20), .secret = std::move(secret)};
}

}  // namespace cohort::cluster
