#include "cohort/cluster/role.h"

namespace cohort::cluster {
bool Role::is_chief() const {
  if (!cluster.empty()) return cluster.chief() == task;
  return rank == 0 || task.type == TaskType::chief || task.type == TaskType::master;
}

std::string Role::host() const {
  return cluster.contains(task) ? cluster.address(task).host : "localhost";
}

RankTable::RankTable(const ClusterSpec& cluster, bool chief_trains) {
  const auto training = cluster.training_tasks(chief_trains);
  if (!training.empty()) first_ = training.front();
  for (const TaskId& task : training) {
    const std::string& name = cluster.address(task).host;
    auto host = hosts_.find(name);
    if (host == hosts_.end())
      host = hosts_.emplace(name, Host{.position = static_cast<int>(hosts_.size())}).first;
    const int rank = static_cast<int>(ranks_.size());
    ranks_[task] = {.rank = rank, .local_rank = host->second.size++};
  }
}

void RankTable::fill(Role& role) const {
  const bool evaluator_outside =
      role.task == TaskId{TaskType::evaluator, 0} && !role.cluster.contains(role.task);
  const auto host =
      evaluator_outside ? hosts_.end() : hosts_.find(role.cluster.address(role.task).host);
  const bool trains_there = host != hosts_.end();
  const auto ranks = ranks_.find(role.task);
  const Rank own = ranks == ranks_.end() ? Rank{} : ranks->second;
  role.rank = own.rank;
  role.size = static_cast<int>(ranks_.size());
  role.local_rank = own.local_rank;
  role.local_size = trains_there ? host->second.size : 0;
  role.cross_rank = trains_there ? host->second.position : -1;
  role.cross_size = static_cast<int>(hosts_.size());
  role.size_known = true;
}

void fill_ranks(Role& role) {
  if (!role.cluster.empty()) RankTable(role.cluster, role.chief_trains).fill(role);
}

}  // namespace cohort::cluster
