#include "cohort/cluster/cluster_spec.h"

#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

void refuse_several(const ClusterSpec& cluster, TaskType type) {
  const auto& addresses = cluster.addresses(type);
  if (addresses.size() < 2) return;
  std::string_view advice = type == TaskType::evaluator
                                ? "Keep one evaluator."
                                : "Keep the first and list the others under worker.";
  throw InvalidInput(fmt::format("the cluster has {} {} tasks ({}, {}{}), and may have one",
                                 addresses.size(), to_string(type), to_string(addresses[0]),
                                 to_string(addresses[1]), addresses.size() > 2 ? ", ..." : ""),
                     {.advice = std::string(advice)});
}

void refuse_both(const ClusterSpec& cluster, TaskType one, TaskType other, std::string advice) {
  if (cluster.addresses(one).empty() || cluster.addresses(other).empty()) return;
  throw InvalidInput(fmt::format("the cluster has both a {} ({}) and a {} ({})", to_string(one),
                                 to_string(cluster.addresses(one)[0]), to_string(other),
                                 to_string(cluster.addresses(other)[0])),
                     {.advice = std::move(advice)});
}

}  // namespace

ClusterSpec::ClusterSpec() : jobs_(std::make_shared<const Jobs>()) {}

void ClusterSpec::set(TaskType type, std::vector<Address> addresses) {
  Jobs jobs = *jobs_;
  if (addresses.empty())
    jobs.erase(type);
  else
    jobs[type] = std::move(addresses);
  jobs_ = std::make_shared<const Jobs>(std::move(jobs));
}

const std::vector<Address>& ClusterSpec::addresses(TaskType type) const {
  static const std::vector<Address> kNone;
  auto found = jobs_->find(type);
  return found == jobs_->end() ? kNone : found->second;
}

const Address& ClusterSpec::address(const TaskId& task) const {
  if (contains(task)) return addresses(task.type)[static_cast<size_t>(task.index)];
  auto type = to_string(task.type);
  size_t count = addresses(task.type).size();
  if (count == 0)
    throw InvalidInput(
        fmt::format("the cluster has no {} tasks, so {} is not one of them", type, to_string(task)),
        {.advice = fmt::format("List its address under \"{}\", or correct the "
                               "task's type.",
                               type)});
  throw InvalidInput(fmt::format("the index of {} is out of range: the cluster has {} {} task{}",
                                 to_string(task), count, type, count == 1 ? "" : "s"),
                     {.advice = count == 1 ? std::string("Use index 0.")
                                           : fmt::format("Use an index from 0 to {}.", count - 1)});
}

bool ClusterSpec::contains(const TaskId& task) const {
  return task.index >= 0 && static_cast<size_t>(task.index) < addresses(task.type).size();
}

std::vector<TaskId> ClusterSpec::tasks() const {
  std::vector<TaskId> result;
  for (const auto& [type, addresses] : *jobs_)
    for (int i = 0; i < static_cast<int>(addresses.size()); ++i) result.push_back({type, i});
  return result;
}

std::optional<TaskId> ClusterSpec::chief() const {
  for (TaskType type : {TaskType::chief, TaskType::master, TaskType::worker})
    if (!addresses(type).empty()) return TaskId{type, 0};
  return std::nullopt;
}

std::vector<TaskId> ClusterSpec::training_tasks(bool chief_trains) const {
  std::vector<TaskId> result;
  for (const TaskId& task : tasks()) {
    bool leads = task.type == TaskType::chief || task.type == TaskType::master;
    if (task.type == TaskType::worker || (leads && chief_trains)) result.push_back(task);
  }
  return result;
}

void ClusterSpec::validate() const {
  if (empty())
    throw InvalidInput("the cluster is empty",
                       {.advice = "List at least one worker, as in worker: [\"localhost:2222\"]."});
  refuse_several(*this, TaskType::chief);
  refuse_several(*this, TaskType::master);
  refuse_several(*this, TaskType::evaluator);
  refuse_both(*this, TaskType::chief, TaskType::master,
              "They are two names of one task: keep chief (or master for an Estimator).");
  refuse_both(*this, TaskType::master, TaskType::evaluator,
              "A master evaluates by itself: rename it to chief, or drop the evaluator.");
  if (!chief())
    throw InvalidInput("the cluster has no chief and no worker, so no task would train",
                       {.advice = "List at least one worker."});
  std::map<Address, TaskId> seen;
  for (const TaskId& task : tasks()) {
    auto [other, is_new] = seen.emplace(address(task), task);
    if (!is_new)
      throw InvalidInput(fmt::format("{} and {} both have the address {}", to_string(other->second),
                                     to_string(task), to_string(other->first)),
                         {.advice = "Give each task its own port."});
  }
}

ClusterSpec colocated_layout(const std::vector<Address>& worker_addresses,
                             const std::vector<Address>& ps_addresses, TaskType chief) {
  if (chief != TaskType::chief && chief != TaskType::master)
    throw InvalidInput(fmt::format("host 0 of a colocated layout cannot be '{}'", to_string(chief)),
                       {.advice = "Use chief or master."});
  if (worker_addresses.empty() || worker_addresses.size() != ps_addresses.size())
    throw InvalidInput(
        fmt::format("a colocated layout was given {} worker addresses and {} ps addresses",
                    worker_addresses.size(), ps_addresses.size()),
        {.advice = "Give one of each for every host, and at least one host."});
  for (size_t i = 0; i < worker_addresses.size(); ++i)
    if (worker_addresses[i].host != ps_addresses[i].host)
      throw InvalidInput(fmt::format("host {} of a colocated layout is '{}' for its worker and "
                                     "'{}' for its ps",
                                     i, worker_addresses[i].host, ps_addresses[i].host),
                         {.advice = "Give both lists in the same order of hosts."});
  ClusterSpec cluster;
  cluster.set(chief, {worker_addresses.front()});
  cluster.set(TaskType::worker, {worker_addresses.begin() + 1, worker_addresses.end()});
  cluster.set(TaskType::ps, ps_addresses);
  cluster.validate();
  return cluster;
}

}  // namespace cohort::cluster
