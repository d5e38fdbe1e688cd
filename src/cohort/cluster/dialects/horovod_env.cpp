#include "cohort/cluster/dialects/horovod_env.h"

#include <map>

#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr RankVariables kHorovodRanks = {"HOROVOD_RANK",       "HOROVOD_SIZE",
                                         "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
                                         "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"};
constexpr std::string_view kRendezvousHost = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
constexpr std::string_view kRendezvousPort = "HOROVOD_GLOO_RENDEZVOUS_PORT";
constexpr std::string_view kInterface = "HOROVOD_GLOO_IFACE";

// `role` with cross numbers among the hosts that have a task of this local rank.
Role with_horovod_cross(Role role) {
  if (role.cluster.empty()) return role;
  role.cross_size = 0;
  std::map<std::string, int> tasks_on;
  for (const TaskId& task : role.cluster.training_tasks(role.chief_trains)) {
    if (tasks_on[role.cluster.address(task).host]++ != role.local_rank) continue;
    if (task == role.task) role.cross_rank = role.cross_size;
    ++role.cross_size;
  }
  return role;
}

}  // namespace

std::optional<Role> read_horovod_env(const Environment& environment) {
  if (!has_ranks(environment, kHorovodRanks)) return std::nullopt;
  Role role;
  role.dialect = "Horovod";
  role.horovod_rendezvous = read_host_and_port(environment, kRendezvousHost, kRendezvousPort);
  bool here = !role.horovod_rendezvous || is_loopback(role.horovod_rendezvous->host);
  read_ranks(environment, kHorovodRanks, here ? Placement::one_host : Placement::one_task_a_host,
             role);
  return role;
}

void write_horovod_env(const Role& role, Environment& environment) {
  erase_ranks(kHorovodRanks, environment);
  for (auto name :
       {std::string_view("HOROVOD_HOSTNAME"), kRendezvousHost, kRendezvousPort,
        std::string_view("HOROVOD_CONTROLLER"), std::string_view("HOROVOD_CPU_OPERATIONS")})
    erase(environment, name);
  if (!role.is_training()) {
    erase(environment, kInterface);
    return;
  }
  write_ranks(with_horovod_cross(role), kHorovodRanks, environment);
  write_text(environment, "HOROVOD_HOSTNAME", role.host());
  if (role.horovod_rendezvous) {
    write_text(environment, kRendezvousHost, role.horovod_rendezvous->host);
    write_number(environment, kRendezvousPort, role.horovod_rendezvous->port);
  }
  if (is_loopback(role.host())) write_text(environment, kInterface, "lo");
  write_text(environment, "HOROVOD_CONTROLLER", "gloo");
  write_text(environment, "HOROVOD_CPU_OPERATIONS", "gloo");
}

}  // namespace cohort::cluster
