#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/cluster_spec.h"
#include "cohort/cluster/environment.h"

namespace cohort::cluster {

// How many workers an elastic job may have at a time.
struct ElasticLimits {
  int least = 1;
  int most = 1;

  bool operator==(const ElasticLimits&) const = default;
};

// All that one process knows about its part in the job. Each dialect (tf_config.h, torchrun_env.h,
// horovod_env.h, ...) reads what it can of it from an Environment and writes what it can into one.
// A value type.
struct Role {
  TaskId task;
  ClusterSpec cluster;       // empty where the dialect tells ranks only (torchrun, MPI, Slurm)
  bool chief_trains = true;  // false: the chief is a coordinator beside the workers

  // Ranks among the tasks that train; rank and local_rank are -1 for ps, evaluator and coordinator,
  // cross_rank is -1 on a host without training tasks.
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those on this host
  int local_size = 1;
  int cross_rank = 0;  // index of this host among the hosts (GROUP_RANK, HOROVOD_CROSS_RANK)
  int cross_size = 1;
  // False where TASK_TYPE and TASK_INDEX are all that is known: `size` is then the least that
  // `rank` allows. Set `cluster` and call fill_ranks to know the rest.
  bool size_known = true;

  std::string job;       // unique id
  std::string launch;    // what a launcher that tells ranks only calls this launch (launch_id.h)
  std::string strategy;  // "" when not given
  std::string output;    // folder shared by the job's tasks; "" when not given
  int attempt = 1;       // counts group restarts, from 1
  int max_restarts = 0;
  int incarnation = 0;  // how often this task was started before in this attempt
  bool resume = false;  // the job was begun by an earlier launcher: go on from its last checkpoint
  // Workers come and go; `size` and `cluster` then have a place for `most` of them.
  std::optional<ElasticLimits> elastic;

  std::optional<Address> store;               // the rendezvous store
  std::optional<Address> master;              // MASTER_ADDR:MASTER_PORT, reserved for torch
  std::optional<Address> horovod_rendezvous;  // the HTTP key-value store for Horovod

  // Which one told us: "Cohort", "TF_CONFIG", "scheduler arguments", "TASK_TYPE", "torchrun",
  // "Horovod", "OpenMPI", "PMI", "PMIx", "Slurm"; "none" when the process is alone.
  std::string dialect;

  bool is_training() const { return rank >= 0; }
  bool is_chief() const;     // by the chief rule; rank 0 where there is no cluster
  std::string host() const;  // of this task in the cluster; "localhost" where there is none

  bool operator==(const Role&) const = default;
};

// The ranks of all tasks of a cluster, counted once. A value; thread-compatible.
class RankTable {
 public:
  RankTable(const ClusterSpec& cluster, bool chief_trains);

  // The task of rank 0; nothing where none trains.
  std::optional<TaskId> first() const { return first_; }
  // As fill_ranks() for a role of this cluster.
  void fill(Role& role) const;

 private:
  struct Rank {
    int rank = -1;
    int local_rank = -1;
  };
  struct Host {
    int position = 0;  // in order of appearance
    int size = 0;      // tasks that train there
  };
  std::optional<TaskId> first_;
  std::map<TaskId, Rank> ranks_;  // of the tasks that train
  std::map<std::string, Host> hosts_;
};

// Fills rank, size, local_* and cross_* from task, cluster and chief_trains: local ranks count the
// training tasks whose address has the same host, cross ranks count hosts in order of appearance.
// Leaves a role without a cluster as it is. Throws InvalidInput when the task is not in the cluster
// (an evaluator need not be).
void fill_ranks(Role& role);

// Finds the role of this process. First match wins: Cohort's own variables, TF_CONFIG, the
// scheduler's arguments (--job_name ...), TASK_TYPE/TASK_INDEX, torchrun, Horovod, OpenMPI, PMI,
// Slurm; none of them: alone (worker/0 of 1, dialect "none"). COHORT_JOB, COHORT_STORE and the
// others that do not name the task (cohort_env.h) add to whichever dialect matched. A variable that
// is set but broken is an InvalidInput, never skipped; one set to blank text counts as unset.
// `arguments` may begin with the program's name.
Role discover_role(const Environment& environment, const std::vector<std::string>& arguments);

// Writes every dialect at once for a task that the launcher starts, and removes what the launcher's
// own environment says of another task: variables that this role has no value for, and the ranks of
// MPI, Slurm and PyTorchJob.
void write_all_dialects(const Role& role, Environment& environment);

// A cluster as the dialects write it: for a launcher that writes them for each task of a cluster.
struct ClusterTexts {
  explicit ClusterTexts(const ClusterSpec& cluster);  // of an empty one: ""

  std::string all;
  std::string without_evaluator;
};
// The same with `cluster` made from role.cluster before.
void write_all_dialects(const Role& role, const ClusterTexts& cluster, Environment& environment);

}  // namespace cohort::cluster
