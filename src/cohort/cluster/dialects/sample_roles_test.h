#pragma once

#include <vector>

#include "cohort/cluster/role.h"

// For tests: clusters whose roles must survive every dialect.
namespace cohort::cluster {

inline std::vector<Address> addresses(std::initializer_list<const char*> texts) {
  std::vector<Address> result;
  for (const char* text : texts) result.push_back(parse_address(text));
  return result;
}

// Two hosts with two training tasks each, a ps on each, an evaluator on the first.
inline ClusterSpec two_hosts(TaskType chief = TaskType::chief) {
  ClusterSpec cluster;
  cluster.set(chief, addresses({"h0:2000"}));
  cluster.set(TaskType::worker, addresses({"h0:2001", "[fe80::1]:2000", "[fe80::1]:2001"}));
  cluster.set(TaskType::ps, addresses({"h0:3000", "[fe80::1]:3000"}));
  if (chief != TaskType::master) cluster.set(TaskType::evaluator, addresses({"h0:4000"}));
  return cluster;
}

inline Role role_in(const ClusterSpec& cluster, TaskId task, bool chief_trains = true) {
  Role role;
  role.task = task;
  role.cluster = cluster;
  role.chief_trains = chief_trains;
  role.job = "job-7";
  role.strategy = "multi_worker_mirrored";
  role.output = "/data/out put ";
  role.attempt = 3;
  role.max_restarts = 5;
  role.store = parse_address("h0:5000");
  role.master = parse_address("[::1]:5001");
  role.horovod_rendezvous = parse_address("h0:5002");
  fill_ranks(role);
  return role;
}

}  // namespace cohort::cluster
