#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/cluster/address.h"
#include "cohort/cluster/task.h"

namespace cohort::cluster {

// Who takes part in a job, and where: for each type of task the addresses, by task index.
// A value type; thread-compatible. Copies share what they hold, so that each of many tasks can have
// one at no cost.
class ClusterSpec {
 public:
  ClusterSpec();

  void set(TaskType type, std::vector<Address> addresses);  // an empty list removes the type
  const std::vector<Address>& addresses(TaskType type) const;
  const Address& address(const TaskId& task) const;  // InvalidInput: index out of range
  bool contains(const TaskId& task) const;
  bool empty() const { return jobs_->empty(); }

  // Types in the order chief, master, worker, ps, evaluator; indices ascending.
  std::vector<TaskId> tasks() const;

  // The chief rule: chief/0 or master/0 where there is one, else worker/0. Nothing in a cluster
  // that has neither a chief nor workers.
  std::optional<TaskId> chief() const;

  // The tasks that train, in rank order: the chief or master first, then the workers. A
  // coordinator (a chief that only directs; TensorFlow's ParameterServerStrategy) does not train
  // and has no rank.
  std::vector<TaskId> training_tasks(bool chief_trains = true) const;

  // Throws InvalidInput, naming the offending value and the fix, for: an empty cluster, two chiefs,
  // chief and master, master and evaluator, more than one evaluator, duplicate addresses.
  void validate() const;

  bool operator==(const ClusterSpec& other) const {
    return jobs_ == other.jobs_ || *jobs_ == *other.jobs_;
  }

 private:
  using Jobs = std::map<TaskType, std::vector<Address>>;
  std::shared_ptr<const Jobs> jobs_;  // never null
};

// The colocated layout: with hosts h0..hn-1, ps = every host at its ps port,
// `chief` = h0 at its worker port, worker = h1..hn-1 at their worker ports. `chief` is
// TaskType::chief or TaskType::master. worker_addresses[i] and ps_addresses[i] are host i's.
ClusterSpec colocated_layout(const std::vector<Address>& worker_addresses,
                             const std::vector<Address>& ps_addresses, TaskType chief);

}  // namespace cohort::cluster
