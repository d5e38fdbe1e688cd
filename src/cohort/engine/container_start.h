#pragma once

#include "cohort/engine/container_places.h"
#include "cohort/engine/container_tool.h"
#include "cohort/engine/task_start.h"

// A task in a container: the wrapper of a task becomes `podman run ... IMAGE command`.
namespace cohort::engine {

// What the command line of the tool depends on besides the job.
struct ContainerHost {
  ContainerTool tool;
  std::vector<Mount> mounts;
  std::string user;          // "1000:1000"
  bool is_rootless = false;  // podman of an ordinary user
  std::string file_limit;    // "SOFT:HARD"
  int variables_fd = -1;     // holds variables_file() for the tool to read
  int descriptors = 0;       // from 3 on, that the task is to inherit; podman's only
};

// The tool's command line for `inside`. Values of variables are not in it. Processes, network and
// shared memory are the host's: ranks of one host find each other as they do without containers, a
// signal means to the program what it means outside, and leftovers are found by their environment.
// Pure.
std::vector<std::string> container_command(const AttemptRequest& request, const TaskStart& inside,
                                           const ContainerHost& host);

// "NAME=value" lines of the variables that such a file can hold. Others (several lines, very long
// ones) are inherited by their names. Pure.
std::string variables_file(const cluster::Environment& variables);

// `inside`, which task_start() gave for a job with an image, as this host runs it: for exec_task().
// Variables and what a task inherits by descriptor lie in memory files that the tool inherits;
// docker passes no descriptors on: there the job's secret is a file (0600) of the attempt's folder,
// and nothing is kept for a task that is started again alone. Throws InvalidInput, SystemError.
TaskStart in_container(const AttemptRequest& request, const TaskStart& inside,
                       const cluster::Environment& inherited);

}  // namespace cohort::engine
