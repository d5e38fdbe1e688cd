// discover_role and write_all_dialects of role.h: the order of the dialects.
#include "cohort/cluster/dialects/cluster_json.h"
#include "cohort/cluster/dialects/cohort_env.h"
#include "cohort/cluster/dialects/horovod_env.h"
#include "cohort/cluster/dialects/mpi_env.h"
#include "cohort/cluster/dialects/scheduler_args.h"
#include "cohort/cluster/dialects/slurm_env.h"
#include "cohort/cluster/dialects/task_type_env.h"
#include "cohort/cluster/dialects/tf_config.h"
#include "cohort/cluster/dialects/torchrun_env.h"
#include "cohort/cluster/launch_id.h"
#include "cohort/cluster/role.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

// The dialects that tell ranks only.
std::optional<Role> read_ranks_dialect(const Environment& environment) {
  for (auto read : {read_torchrun_env, read_horovod_env, read_mpi_env, read_slurm_env})
    if (auto role = read(environment)) {
      role->launch = launch_id(environment, role->dialect);
      return role;
    }
  return std::nullopt;
}

// Completes a role of which the task alone is known with another dialect's numbers.
Role with_ranks_from_elsewhere(Role role, const Environment& environment) {
  if (role.size_known || !role.is_training()) return role;
  auto ranks = read_ranks_dialect(environment);
  if (!ranks) return role;
  ranks->task = role.task;
  ranks->dialect = role.dialect;
  return *ranks;
}

std::optional<Role> read_any(const Environment& environment,
                             const std::vector<std::string>& arguments) {
  if (auto role = read_cohort_env(environment)) return role;
  if (auto text = read_text(environment, kTfConfig)) return parse_tf_config(*text);
  if (auto role = parse_scheduler_args(arguments))
    return with_ranks_from_elsewhere(*role, environment);
  if (auto role = read_task_type_env(environment))
    return with_ranks_from_elsewhere(*role, environment);
  return read_ranks_dialect(environment);
}

}  // namespace

Role discover_role(const Environment& environment, const std::vector<std::string>& arguments) {
  Role alone;
  alone.dialect = "none";
  Role role = read_any(environment, arguments).value_or(alone);
  add_cohort_settings(environment, role);
  return role;
}

ClusterTexts::ClusterTexts(const ClusterSpec& cluster) {
  if (cluster.empty()) return;
  all = write_cluster_json(cluster, Evaluator::keep);
  without_evaluator = write_cluster_json(cluster, Evaluator::leave_out);
}

void write_all_dialects(const Role& role, Environment& environment) {
  write_all_dialects(role, ClusterTexts(role.cluster), environment);
}

void write_all_dialects(const Role& role, const ClusterTexts& cluster, Environment& environment) {
  erase_mpi_env(environment);
  erase_slurm_task(environment);
  write_cohort_env(role, cluster.all, environment);
  write_text(environment, kTfConfig,
             role.cluster.empty() ? "" : write_tf_config(role, cluster.without_evaluator));
  write_task_type_env(role, environment);
  write_torchrun_env(role, environment);
  write_horovod_env(role, environment);
}

}  // namespace cohort::cluster
