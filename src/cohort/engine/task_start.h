#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/engine/engine.h"
#include "cohort/jobspec/job_environment.h"

// The wrapper around every task of an attempt: `cohort exec-task`.
namespace cohort::engine {

// mpirun tells a process which rank it is.
inline constexpr const char* kMpiRank = "OMPI_COMM_WORLD_RANK";

// Whether the tasks of the job run in containers.
bool has_image(const jobspec::ResolvedJob& job);

struct TaskStart {
  std::vector<std::string> command;
  cluster::Environment environment;  // the whole of it
  std::filesystem::path folder;      // to run in
};

// Which instance a task is on, by its environment: mpirun's rank, or the launcher's task.
int instance_of(const AttemptRequest& request, const cluster::Environment& environment);

// Where the attempt's folders lie on this host.
jobspec::Folders folders_here(const AttemptRequest& request, const cluster::Environment& inherited);

// What the task runs, and with which environment: the job's variables and those of its instance
// (jobspec/job_environment.h), PATH and VIRTUAL_ENV of its virtual environment. A program *.py runs
// under Python, *.sh under bash; others are looked for in the source, then in PATH. `inherited` is
// what launcher or mpirun give. For a job with an image all of it is as inside of the container:
// folders (container_places.h), and of `inherited` what containers are told.
TaskStart task_start(const AttemptRequest& request, const std::vector<std::string>& program,
                     const cluster::Environment& inherited);

// Becomes that program. Throws InvalidInput when it cannot be started, SystemError.
[[noreturn]] void exec_task(const TaskStart& start);

// What this host lacks for the job: virtual environment or image, input files, a place for its
// results, program (unless it is in a source that is still to come, or may be in the image). A
// sentence each.
enum class Looked { at_all, beside_program };
std::vector<std::string> missing_here(const AttemptRequest& request,
                                      const cluster::Environment& inherited, Looked looked);

}  // namespace cohort::engine
