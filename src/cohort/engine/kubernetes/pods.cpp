#include "cohort/engine/kubernetes/pods.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/engine/kubernetes/options.h"
#include "cohort/launch/plan/plan.h"

namespace cohort::engine::kubernetes {
namespace {

using cluster::Address;
using cluster::TaskId;

std::string pod_host(const std::string& job, const std::string& service, int index) {
  return fmt::format("{}-{}.{}", job, index, service);
}

}  // namespace

ClaimVolume parse_volume(const std::string& text) {
  const std::size_t colon = text.find(":/");
  ClaimVolume volume;
  if (colon != std::string::npos && colon > 0) {
    volume = {.claim = text.substr(0, colon), .path = text.substr(colon + 1)};
    volume.read_only = volume.path.ends_with(":ro");
    if (volume.read_only) volume.path.resize(volume.path.size() - 3);
  }
  if (volume.path.size() < 2 || volume.path.find(':') != std::string::npos)
    throw InvalidInput(fmt::format("'{}' is no volume", text),
                       {.advice = "Give CLAIM:/path, or CLAIM:/path:ro for one to read only."});
  return volume;
}

TaskId Pods::task(int index) const {
  const int place = index - (has_coordinator ? 1 : 0);
  if (place < 0) return {cluster::TaskType::chief, 0};
  if (place >= static_cast<int>(tasks.size())) return {cluster::TaskType::worker, place};
  return tasks[static_cast<std::size_t>(place)];
}

std::string Pods::task_name(int index) const {
  if (has_coordinator && index == 0) return "coordinator:0";
  const TaskId id = task(index);
  return fmt::format("{}:{}", cluster::to_string(id.type), id.index);
}

Pods lay_out_pods(const launch::JobOptions& options, const std::string& job,
                  const std::string& service) {
  if (!options.hosts.empty())
    throw InvalidInput("engine \"kubernetes\" chooses its nodes itself, and the job names hosts",
                       {.advice = "Leave hosts and hostfile out; select nodes by their labels."});
  Pods pods{.job = job, .service = service, .has_coordinator = options.elastic.has_value()};
  int next = pods.has_coordinator ? 1 : 0;
  launch::JobOptions apart = options;
  apart.layout = launch::Layout::separate;
  pods.cluster = launch::lay_out(apart, [&] {
    return Address{pod_host(job, service, next++), kTaskPort};
  });
  pods.tasks.resize(pods.cluster.tasks().size());
  for (const TaskId& task : pods.cluster.tasks())
    for (int index = pods.has_coordinator ? 1 : 0; index < next; ++index)
      if (pods.cluster.address(task).host == pod_host(job, service, index))
        pods.tasks[static_cast<std::size_t>(index - (pods.has_coordinator ? 1 : 0))] = task;
  pods.gating = pods.has_coordinator
                    ? 1
                    : static_cast<int>(std::count_if(
                          pods.tasks.begin(), pods.tasks.end(),
                          [](const TaskId& task) { return !launch::is_service(task.type); }));
  return pods;
}

cluster::Role pod_role(const launch::JobOptions& options, const Pods& pods, int index,
                       int incarnation) {
  const int place = index - (pods.has_coordinator ? 1 : 0);
  if (place < 0 || place >= static_cast<int>(pods.tasks.size()))
    throw InvalidInput(
        fmt::format("JOB_COMPLETION_INDEX is {}, but the job has {} pods", index, pods.count()));
  const cluster::RankTable ranks(pods.cluster, !options.coordinator);
  cluster::Role role{.task = pods.tasks[static_cast<std::size_t>(place)],
                     .cluster = pods.cluster,
                     .chief_trains = !options.coordinator,
                     .job = options.id,
                     .strategy = options.strategy,
                     .max_restarts = options.max_restarts,
                     .incarnation = incarnation};
  ranks.fill(role);
  if (ranks.first()) role.master = Address{pods.cluster.address(*ranks.first()).host, kMasterPort};
  if (options.elastic) {
    role.elastic = cluster::ElasticLimits{options.elastic->least, options.elastic->most};
    role.store = Address{pod_host(pods.job, pods.service, 0), kTaskPort};
  }
  return role;
}

}  // namespace cohort::engine::kubernetes
