#pragma once

#include <optional>

#include "cohort/cluster/role.h"

// PyTorch's dialect: what torchrun gives to each process, and `env://` initialisation reads. Pure
// functions.
namespace cohort::cluster {

// Nothing when RANK, WORLD_SIZE and PET_NODE_RANK are all unset. RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT set by hand suffice: without LOCAL_RANK and LOCAL_WORLD_SIZE all tasks are taken to
// be on this host when MASTER_ADDR is unset or loopback, else to have a host each. Kubernetes'
// PyTorchJob: where PET_NODE_RANK is set and LOCAL_RANK is not, torchrun has not run yet, and RANK
// is the node's index; the process is then one task of PET_NNODES. Throws InvalidInput as
// read_ranks does, and for PET_NPROC_PER_NODE above 1 without torchrun.
std::optional<Role> read_torchrun_env(const Environment& environment);

// MASTER_ADDR and MASTER_PORT; nothing unless both are set.
std::optional<Address> read_master(const Environment& environment);

// RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME
// ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
// TORCHELASTIC_RUN_ID. A task that does not train gets none of them, and inherited ones (PET_* too)
// are removed.
void write_torchrun_env(const Role& role, Environment& environment);

}  // namespace cohort::cluster
