#pragma once

#include <string>

#include "cohort/cluster/environment.h"

namespace cohort::cluster {

// What the launcher of `dialect` (Role::dialect) calls this one launch: the same for all its tasks,
// and for no other launch that runs at the same time on this host. "" where it says nothing.
//   OpenMPI, PMIx  PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid
//   PMI            PMI_JOBID, PMI_PORT
//   Slurm          SLURM_JOB_ID and SLURM_STEP_ID
//   torchrun       TORCHELASTIC_RUN_ID, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RESTART_COUNT
//   Horovod        HOROVOD_GLOO_RENDEZVOUS_ADDR and HOROVOD_GLOO_RENDEZVOUS_PORT
// A pure function.
std::string launch_id(const Environment& environment, const std::string& dialect);

}  // namespace cohort::cluster
