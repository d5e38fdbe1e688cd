#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/role.h"
#include "cohort/launch/job.h"
#include "cohort/launch/ports.h"

namespace cohort::launch {

// What the tasks of a job are told about it.
struct JobIdentity {
  std::string job;                // unique id
  std::string host;               // this machine's name, for people
  std::filesystem::path output;   // absolute
  std::filesystem::path program;  // resolved
  cluster::Address store;
  std::optional<cluster::Address> horovod_rendezvous;
  bool has_secret = true;
  int terminal_columns = 0;  // of the terminal that keeps a task's line alive; 0: there is none
};

// A new job's id, host, program and output folder, as the options and PATH have them; store and
// rendezvous are still to come. Throws InvalidInput when the program cannot be run.
JobIdentity new_identity(const JobOptions& options, const cluster::Environment& environment);

struct PlannedTask {
  cluster::Role role;
  std::string host;
  std::vector<std::string> command;
  cluster::Environment environment;  // the whole of it
  cluster::Environment added;        // the part that Cohort sets or changes
  std::vector<std::string> removed;  // what the launcher has and the task must not
  std::filesystem::path log;
};

// Lays out one attempt: the cluster, each task's role, environment, command line and log file.
// Ports come from `ports`, which must outlive the attempt. `inherited` is the launcher's own
// environment. Expects settled options. Throws InvalidInput.
std::vector<PlannedTask> make_plan(const JobOptions& options, const JobIdentity& identity,
                                   int attempt, PortReservation& ports,
                                   const cluster::Environment& inherited);

// For --dry-run: each task's environment and command line, as a shell would take them.
std::string describe(const std::vector<PlannedTask>& plan);

// 20261115-101502-3fa9: sorts by time, unique on this machine and, with 32 random bits, elsewhere.
std::string new_job_id();

}  // namespace cohort::launch
