#pragma once

#include <optional>

#include "cohort/cluster/role.h"

// Horovod's dialect (its gloo controller): HOROVOD_*. Pure functions.
namespace cohort::cluster {

// Nothing when HOROVOD_RANK and HOROVOD_SIZE are unset. Throws InvalidInput as read_ranks does.
std::optional<Role> read_horovod_env(const Environment& environment);

// HOROVOD_ HOSTNAME RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE GLOO_RENDEZVOUS_ADDR
// GLOO_RENDEZVOUS_PORT CONTROLLER CPU_OPERATIONS, and GLOO_IFACE=lo where the host is loopback
// (elsewhere it keeps what the user set). Horovod's cross numbers count the hosts that have a task
// of the same local rank, which Role's do not where hosts have different numbers of tasks.
// A task that does not train gets none of them, and inherited ones are removed.
void write_horovod_env(const Role& role, Environment& environment);

}  // namespace cohort::cluster
