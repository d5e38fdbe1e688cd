#include "cohort/cluster/role.h"

#include <algorithm>
#include <map>

namespace cohort::cluster {
namespace {

// The position of `task`, -1 where there is none.
int position(const std::vector<TaskId>& tasks, const TaskId& task) {
  auto found = std::find(tasks.begin(), tasks.end(), task);
  return found == tasks.end() ? -1 : static_cast<int>(found - tasks.begin());
}

}  // namespace

bool Role::is_chief() const {
  if (!cluster.empty()) return cluster.chief() == task;
  return rank == 0 || task.type == TaskType::chief || task.type == TaskType::master;
}

std::string Role::host() const {
  return cluster.contains(task) ? cluster.address(task).host : "localhost";
}

void fill_ranks(Role& role) {
  if (role.cluster.empty()) return;
  bool listed = role.cluster.contains(role.task);
  bool evaluator_outside = role.task == TaskId{TaskType::evaluator, 0} && !listed;
  std::string host = evaluator_outside ? "" : role.cluster.address(role.task).host;

  std::vector<TaskId> training = role.cluster.training_tasks(role.chief_trains);
  std::vector<TaskId> beside;        // those on this task's host
  std::map<std::string, int> hosts;  // host -> position in order of appearance
  for (const TaskId& task : training) {
    const std::string& its_host = role.cluster.address(task).host;
    hosts.emplace(its_host, static_cast<int>(hosts.size()));
    if (its_host == host) beside.push_back(task);
  }
  role.rank = position(training, role.task);
  role.size = static_cast<int>(training.size());
  role.local_rank = position(beside, role.task);
  role.local_size = static_cast<int>(beside.size());
  role.cross_rank = hosts.contains(host) ? hosts.at(host) : -1;
  role.cross_size = static_cast<int>(hosts.size());
  role.size_known = true;
}

}  // namespace cohort::cluster
