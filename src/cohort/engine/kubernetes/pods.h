#pragma once

#include <string>
#include <vector>

#include "cohort/cluster/cluster_spec.h"
#include "cohort/cluster/role.h"
#include "cohort/launch/job/job.h"

// Which task of a job runs in which pod of its Indexed Job, and where the tasks find each other.
// Every pod makes the same layout for itself, from the same words. Pure functions.
namespace cohort::engine::kubernetes {

inline constexpr int kTaskPort = 7070;    // of a task, in its own pod
inline constexpr int kMasterPort = 7071;  // MASTER_PORT

struct Pods {
  std::string job, service;      // their names
  cluster::ClusterSpec cluster;  // JOB-INDEX.SERVICE:kTaskPort each
  // Pod 0 of an elastic job runs the store and the membership coordinator; its workers follow.
  bool has_coordinator = false;
  std::vector<cluster::TaskId> tasks;  // by the index of their pods, behind the coordinator
  // Pods whose success is the job's: those of the tasks that train, or of the coordinator alone.
  int gating = 1;

  int count() const { return static_cast<int>(tasks.size()) + (has_coordinator ? 1 : 0); }
  // "worker:1"; "coordinator:0". A pod that an elastic job got later is the next worker.
  std::string task_name(int index) const;
  cluster::TaskId task(int index) const;  // the coordinator is chief/0
};

// `options` are settled. Servers that go beside workers elsewhere have pods of their own. Throws InvalidInput for what pods cannot do: MPI, hosts.
Pods lay_out_pods(const launch::JobOptions& options, const std::string& job,
                  const std::string& service);

// The role of the task in pod `index`; `incarnation` grows with each pod of that index. Throws
// InvalidInput where there is none.
cluster::Role pod_role(const launch::JobOptions& options, const Pods& pods, int index,
                       int incarnation = 0);

}  // namespace cohort::engine::kubernetes
