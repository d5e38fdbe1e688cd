#pragma once

#include <optional>
#include <string>

#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/engine.h"
#include "cohort/engine/slurm/slurm_view.h"

// What becomes of an attempt, by the launcher's word and by Slurm's.
namespace cohort::engine {

// What is known of the attempt's Slurm job.
struct SlurmSight {
  SlurmId id = 0;
  bool answered = false;        // Slurm has, since the job was submitted
  std::optional<SlurmJob> job;  // nothing although it has: Slurm has forgotten the job
  bool stop_asked = false;      // by Cohort
};

// `status` is what the launcher has written; it becomes what is so. A success counts at once. Other
// ends count when the Slurm job has ended, too: a preempted job comes back. What Slurm ended itself
// is told in Slurm's terms: lost, so that the service may start it again, or stopped where a person
// cancelled it. `settled`: the launcher's last word would be there by now. Pure.
void judge(const SlurmSight& sight, bool settled, AttemptStatus& status);

// ": text" with the end of what the supervisor and Slurm wrote; "" where that is nothing.
std::string last_words(const AttemptFolder& folder);

}  // namespace cohort::engine
