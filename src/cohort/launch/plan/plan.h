#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/role.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/plan/ports.h"

namespace cohort::launch {

// What the tasks of a job are told about it.
struct JobIdentity {
  std::string job;                    // unique id
  std::string host;                   // this machine's name, for people
  std::filesystem::path output;       // absolute
  std::filesystem::path program;      // resolved
  std::string address = "127.0.0.1";  // this machine, as the job's hosts see it
  cluster::Address store;
  std::optional<cluster::Address> horovod_rendezvous;
  bool has_secret = true;
  int terminal_columns = 0;  // of the terminal that keeps a task's line alive; 0: there is none
};

// A new job's id, host, program and output folder, as the options and PATH have them; store and
// rendezvous are still to come. With `resume` the id is that of the job which the folder holds.
// Throws InvalidInput when the program cannot be run.
JobIdentity new_identity(const JobOptions& options, const cluster::Environment& environment);

struct PlannedTask {
  cluster::Role role;
  std::string host;
  std::vector<std::string> command;
  cluster::Environment environment;  // the whole of it
  // The part that Cohort sets or changes, and what the launcher has and the task must not. For
  // people and for other hosts: not told of a task that plan() makes for this machine.
  cluster::Environment added;
  std::vector<std::string> removed;
  std::filesystem::path log;
  // How its host is reached (remote_shell.h); empty: it is this machine. `added` and `removed` then
  // apply to what the host gives, and `environment` is the remote shell's.
  std::vector<std::string> remote_command;
};

// The cluster of these options. `take` is asked for an address for each task: first of those that
// train, then of servers, of a coordinator, of an evaluator. Throws InvalidInput.
cluster::ClusterSpec lay_out(const JobOptions& options,
                             const std::function<cluster::Address()>& take);

// Lays out one attempt: the cluster, each task's host, role, environment, command line and log
// file. Tasks run on this machine but for the workers of a job that is not elastic and names hosts,
// which are spread over those; servers then go on the hosts in turn, the rest on the first.
//
// Confined to one thread. `options` (settled), `identity` and `inherited`, the launcher's own
// environment, must outlive it; ports come from `ports`, which must outlive the attempt. Throws
// InvalidInput.
class Planner {
 public:
  Planner(const JobOptions& options, const JobIdentity& identity, int attempt,
          PortReservation& ports, const cluster::Environment& inherited);

  // From here on this task runs on `host`.
  void place(const cluster::TaskId& task, const std::string& host) { move({{task, host}}); }

  // Takes time in proportion to the task's own environment, most of which is the list of all tasks:
  // make it when it is needed, and do not keep it.
  PlannedTask plan(const cluster::TaskId& task, int incarnation = 0) const;
  std::string host_of(const cluster::TaskId& task) const;
  std::filesystem::path log_of(const cluster::TaskId& task) const;
  std::vector<cluster::TaskId> tasks() const { return cluster_.tasks(); }
  std::vector<PlannedTask> all() const;  // with `added` and `removed`

 private:
  // What the tasks have in common; made anew when one of them moves.
  struct Common {
    cluster::RankTable ranks;
    cluster::ClusterTexts texts;
    int tasks_here = 0;
  };

  void place_on_hosts();
  void move(const std::map<cluster::TaskId, std::string>& hosts);
  const Common& common() const;
  cluster::Role role_of(const cluster::TaskId& task, int incarnation) const;
  void plan_here(PlannedTask& planned) const;
  void plan_remotely(PlannedTask& planned, const std::string& host) const;

  const JobOptions& options_;
  const JobIdentity& identity_;
  int attempt_;
  const cluster::Environment& inherited_;
  cluster::ClusterSpec cluster_;
  std::map<cluster::TaskId, std::string> remote_;  // tasks on other hosts
  std::vector<std::string> gpus_;                  // of this machine
  int master_port_;
  mutable std::optional<Common> common_;
};

// All of a Planner's tasks.
std::vector<PlannedTask> make_plan(const JobOptions& options, const JobIdentity& identity,
                                   int attempt, PortReservation& ports,
                                   const cluster::Environment& inherited);

// For --dry-run: each task's environment and command line, as a shell would take them.
std::string describe(const std::vector<PlannedTask>& plan);

// 20261115-101502-3fa9: sorts by time, unique on this machine and, with 32 random bits, elsewhere.
std::string new_job_id();

}  // namespace cohort::launch
