#pragma once

#include <optional>

#include "cohort/cluster/role.h"

// Cohort's own dialect, which holds all of a Role:
//   COHORT_TASK_TYPE COHORT_TASK_INDEX  the task
//   COHORT_CLUSTER                      who takes part, as JSON (cluster_json.h), evaluator
//   included COHORT_CHIEF_TRAINS                 1, or 0 where the chief is a coordinator
//   COHORT_RANK COHORT_SIZE COHORT_LOCAL_RANK COHORT_LOCAL_SIZE COHORT_CROSS_RANK COHORT_CROSS_SIZE
//                                       as Role's; ranks are -1 for a task that does not train
//   COHORT_JOB COHORT_STRATEGY COHORT_OUTPUT COHORT_ATTEMPT COHORT_MAX_RESTARTS
//   COHORT_ELASTIC COHORT_INCARNATION COHORT_RESUME   LEAST:MOST, a count, 1: Role's
//   COHORT_STORE COHORT_MASTER COHORT_HOROVOD_RENDEZVOUS   addresses
// The job's secret never travels this way. Pure functions.
namespace cohort::cluster {

// Nothing when no variable of the first two lines, COHORT_RANK or COHORT_SIZE is set. COHORT_RANK
// and COHORT_SIZE suffice (worker/<rank>), and so do task and cluster. read(write(role)) == role
// but for `dialect`, which becomes "Cohort". Throws InvalidInput, naming variable and value, for
// what is no number, contradicts or is missing.
std::optional<Role> read_cohort_env(const Environment& environment);

// Lays the variables that name no task (COHORT_CHIEF_TRAINS and those of the last three lines) over
// a role that another dialect told; counts the ranks again where that changes them.
void add_cohort_settings(const Environment& environment, Role& role);

// Removes the variables that this role has no value for. `cluster` is role.cluster's JSON, "" where
// that is empty.
void write_cohort_env(const Role& role, const std::string& cluster, Environment& environment);
void write_cohort_env(const Role& role, Environment& environment);

}  // namespace cohort::cluster
