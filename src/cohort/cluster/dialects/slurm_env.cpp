#include "cohort/cluster/dialects/slurm_env.h"

#include "cohort/base/error.h"
#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/dialects/slurm_nodes.h"
#include "cohort/cluster/dialects/torchrun_env.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

using Candidates = std::initializer_list<std::string_view>;

// The first of `names` that is set.
std::optional<std::string_view> first_set(const Environment& environment, Candidates names) {
  for (std::string_view name : names)
    if (read_text(environment, name)) return name;
  return std::nullopt;
}

bool is_batch_script(const Environment& environment) {
  return first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}) &&
         !first_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"});
}

std::vector<std::string> read_nodes(const Environment& environment) {
  auto name =
      first_set(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  return name ? expand_slurm_nodelist(*read_text(environment, *name)) : std::vector<std::string>();
}

int read_node_count(const Environment& environment, const std::vector<std::string>& nodes) {
  auto name =
      first_set(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  if (name) return *read_number(environment, *name, 1);
  return nodes.empty() ? 1 : static_cast<int>(nodes.size());
}

// Tasks on node `node`; Slurm's own even spread where no variable says.
int read_local_size(const Environment& environment, int node, int node_count, int size) {
  auto name = first_set(
      environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
  if (!name) return size / node_count + (node < size % node_count ? 1 : 0);
  std::string text = *read_text(environment, *name);
  std::vector<int> counts;
  try {
    counts = expand_slurm_counts(text);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", *name, error.message()), error.context());
  }
  if (counts.size() == 1) return counts.front();
  if (static_cast<size_t>(node) >= counts.size())
    throw InvalidInput(fmt::format("SLURM_NODEID={} is not among the {} nodes of {}={}", node,
                                   counts.size(), *name, text),
                       {.advice = "Correct one of the two."});
  return counts[static_cast<size_t>(node)];
}

}  // namespace

std::optional<Role> read_slurm_env(const Environment& environment) {
  if (!read_text(environment, "SLURM_PROCID") || is_batch_script(environment)) return std::nullopt;
  auto size_name = first_set(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  int rank = *read_number(environment, "SLURM_PROCID");
  int size = size_name ? *read_number(environment, *size_name, 1) : 1;
  std::vector<std::string> nodes = read_nodes(environment);
  int node_count = read_node_count(environment, nodes);
  int node = read_number(environment, "SLURM_NODEID").value_or(0);

  // The numbers go through read_ranks under the names that were chosen, for its checks.
  RankVariables names = {"SLURM_PROCID",  size_name.value_or("SLURM_NTASKS"),
                         "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
                         "SLURM_NODEID",  "SLURM_NNODES"};
  Environment chosen;
  write_number(chosen, names.rank, rank);
  write_number(chosen, names.size, size);
  write_number(chosen, names.local_size, read_local_size(environment, node, node_count, size));
  if (auto local_rank = read_number(environment, names.local_rank))
    write_number(chosen, names.local_rank, *local_rank);
  write_number(chosen, names.cross_rank, node);
  write_number(chosen, names.cross_size, node_count);

  Role role;
  role.dialect = "Slurm";
  read_ranks(chosen, names, Placement::one_host, role);
  role.job = read_text(environment, "SLURM_JOB_ID").value_or("");
  role.master = read_master(environment);
  auto port = read_text(environment, "MASTER_PORT");
  if (!role.master && port && !nodes.empty()) {
    Environment first = {{"MASTER_ADDR", nodes.front()}, {"MASTER_PORT", *port}};
    role.master = read_master(first);
  }
  return role;
}

void erase_slurm_task(Environment& environment) {
  for (auto name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) erase(environment, name);
}

}  // namespace cohort::cluster
