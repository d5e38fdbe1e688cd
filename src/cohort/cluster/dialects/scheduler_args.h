#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/role.h"

// The dialect of schedulers that tell a task its role on the command line:
//   --job_name=worker --task_index=0 --ps_hosts=a:1,b:1 --worker_hosts=a:2,b:2
// and --chief_hosts or --master_hosts where the chief is a job of its own. Pure functions.
namespace cohort::cluster {

// Takes `--name value` and `--name=value`, one dash or two, `-` for `_` inside names; the last of
// equal names wins; reads up to a lone `--`; leaves all other arguments alone.
// Nothing when no list of hosts has a value and --job_name and --task_index are not both there: a
// lone --job_name belongs to the program. Without any hosts the task alone is known, as in
// task_type_env.h.
// Throws InvalidInput, naming argument and value: no --job_name or --task_index beside hosts,
// an invalid task type, an index out of range, a bad address, what ClusterSpec::validate refuses.
std::optional<Role> parse_scheduler_args(const std::vector<std::string>& arguments);

// What is left for the program: all arguments but those that parse_scheduler_args read; everything
// when it reads no role. Throws as it does.
std::vector<std::string> without_scheduler_args(const std::vector<std::string>& arguments);

// The arguments to append, one word each: "--job_name=worker". Lists without hosts are left out,
// and so is the evaluator's address.
std::vector<std::string> write_scheduler_args(const Role& role);

}  // namespace cohort::cluster
