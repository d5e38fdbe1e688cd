#include "cohort/cluster/dialects/torchrun_env.h"

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr RankVariables kTorchrunRanks = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"};

// PET_NNODES is a number or, for elastic jobs, "least:most".
int read_node_count(const Environment& environment) {
  std::string text = read_text(environment, "PET_NNODES").value_or("1");
  auto parts = split(text, ':');
  bool fixed = parts.size() == 1 || (parts.size() == 2 && parts[0] == parts[1]);
  if (!fixed)
    throw InvalidInput(fmt::format("PET_NNODES={} does not say how many nodes there are", text),
                       {.advice = "Start the program with torchrun, or set one number."});
  return parse_number("PET_NNODES", parts[0], 1);
}

void read_pytorch_job_node(const Environment& environment, Role& role) {
  std::string processes = read_text(environment, "PET_NPROC_PER_NODE").value_or("1");
  if (processes != "1" && processes != "auto")
    throw InvalidInput(
        fmt::format("PET_NPROC_PER_NODE={} asks for that many processes on each node, but this one "
                    "was not started by torchrun",
                    processes),
        {.advice = "Start the program with torchrun, or set PET_NPROC_PER_NODE=1."});
  role.rank = role.cross_rank = *read_number(environment, "PET_NODE_RANK");
  role.size = role.cross_size = read_node_count(environment);
  role.task = {TaskType::worker, role.rank};
  if (role.rank >= role.size)
    throw InvalidInput(
        fmt::format("PET_NODE_RANK={} is not below PET_NNODES={}", role.rank, role.size),
        {.advice = "Ranks count from 0: lower PET_NODE_RANK, or raise PET_NNODES."});
}

}  // namespace

std::optional<Role> read_torchrun_env(const Environment& environment) {
  bool node_only =
      read_text(environment, "PET_NODE_RANK") && !read_text(environment, kTorchrunRanks.local_rank);
  if (!node_only && !has_ranks(environment, kTorchrunRanks)) return std::nullopt;
  Role role;
  role.dialect = "torchrun";
  role.master = read_master(environment);
  if (node_only) {
    read_pytorch_job_node(environment, role);
  } else {
    auto master_host = read_text(environment, "MASTER_ADDR");
    bool here = !master_host || is_loopback(*master_host);
    read_ranks(environment, kTorchrunRanks, here ? Placement::one_host : Placement::one_task_a_host,
               role);
  }
  role.attempt = 1 + read_number(environment, "TORCHELASTIC_RESTART_COUNT").value_or(0);
  role.max_restarts = read_number(environment, "TORCHELASTIC_MAX_RESTARTS").value_or(0);
  role.job = read_text(environment, "TORCHELASTIC_RUN_ID").value_or("");
  return role;
}

std::optional<Address> read_master(const Environment& environment) {
  return read_host_and_port(environment, "MASTER_ADDR", "MASTER_PORT");
}

void write_torchrun_env(const Role& role, Environment& environment) {
  erase_ranks(kTorchrunRanks, environment);
  for (auto name : {"ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
                    "TORCHELASTIC_RUN_ID", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"})
    erase(environment, name);
  if (!role.is_training()) return;
  write_ranks(role, kTorchrunRanks, environment);
  write_text(environment, "ROLE_NAME", "default");
  write_number(environment, "ROLE_RANK", role.rank);
  write_number(environment, "ROLE_WORLD_SIZE", role.size);
  if (role.master) {
    write_text(environment, "MASTER_ADDR", role.master->host);
    write_number(environment, "MASTER_PORT", role.master->port);
  }
  write_number(environment, "TORCHELASTIC_RESTART_COUNT", role.attempt - 1);
  write_number(environment, "TORCHELASTIC_MAX_RESTARTS", role.max_restarts);
  write_text(environment, "TORCHELASTIC_RUN_ID", role.job);
}

}  // namespace cohort::cluster
