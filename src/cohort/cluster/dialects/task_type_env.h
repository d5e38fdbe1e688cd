#pragma once

#include <optional>
#include <string_view>

#include "cohort/cluster/role.h"

// The dialect of practitioners' scripts: TASK_TYPE and TASK_INDEX. Pure functions.
namespace cohort::cluster {

// Nothing when neither is set. This dialect only names the task: the scripts that use it have the
// hosts in their code. So the role has no cluster, and
// - its numbers come from torchrun's, Horovod's, MPI's or Slurm's variables where discover_role
//   finds them beside these, and `size` from WORLD_SIZE where that alone is set;
// - else size_known is false, `rank` is the index of a worker (0 for a chief or master, -1 for the
//   others) and `size` the least that it allows. A program that knows its hosts sets role.cluster
//   and calls fill_ranks.
// Throws InvalidInput: "Invalid task type", an index that is no number, one variable without the
// other, an index that is not below WORLD_SIZE, an index other than 0 for chief, master, evaluator.
std::optional<Role> read_task_type_env(const Environment& environment);

// A role of which only the task is known, as above; TASK_TYPE and TASK_INDEX are called
// `type_name` and `index_name` in errors. Serves the scheduler's arguments too.
Role role_of_named_task(std::string_view type_name, std::string_view type,
                        std::string_view index_name, std::string_view index);

void write_task_type_env(const Role& role, Environment& environment);

}  // namespace cohort::cluster
