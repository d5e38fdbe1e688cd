#pragma once

#include <optional>

#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/slurm/slurm_view.h"
#include "cohort/launch/job/job.h"

// An attempt inside of its Slurm job: `cohort attempt --slurm FOLDER`, on the first node. The
// folder is on a file system that all nodes share.
namespace cohort::engine {

// taken: another Slurm job runs the attempt, or it has succeeded. again: this job has run it, and
// Slurm starts it once more (a preemption, a node that was lost): it goes on from its checkpoints.
enum class SlurmTurn { taken, first, again };

// The attempt belongs to one Slurm job for ever. Throws InvalidInput outside of Slurm.
SlurmTurn claim_for_slurm(const AttemptFolder& folder, const cluster::Environment& environment);

// The Slurm job that has the claim; nothing where there is none.
std::optional<SlurmId> claiming_slurm_job(const AttemptFolder& folder);

// The nodes of the allocation become the hosts of `asked`. Those of an elastic job are looked at
// again while it runs, so that a node that Slurm has lost is left out. GPUs are handed out by
// Slurm.
void place_on_allocation(const AttemptRequest& request, const cluster::Environment& environment,
                         launch::JobOptions& asked);

}  // namespace cohort::engine
