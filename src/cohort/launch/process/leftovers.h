#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "cohort/base/deadline.h"

namespace cohort::launch {

// The name by which a guard shows in the process table (PR_SET_NAME).
inline constexpr const char* kGuardName = "cohort-guard";
// The variable that marks a job's processes.
inline constexpr const char* kJobVariable = "COHORT_JOB";

// Makes the kernel hand this process the children of its tasks whose own parents have ended, so
// that end_leftovers() finds them whatever they did to their session and environment.
void adopt_orphans();

// Takes dead adopted children out of the process table. Stops at one of `known`, for which other
// code waits: call it again when that one has been reaped.
void reap_orphans(const std::set<pid_t>& known);

// Kills, again and again until none is left or the deadline is over, the processes that a job left
// behind: those that descend from the caller, and those of this user, wherever they are in the
// process tree, whose environment holds `COHORT_JOB=<job>` (but not the guard of a job that ran
// inside this one: it has that job to clear away, and then ends). Never the caller, nor `spared`.
// Returns how many processes it hit. `job` is unique to one run. Another `variable` than COHORT_JOB
// may mark the processes.
int end_leftovers(const std::string& job, pid_t spared, Deadline deadline,
                  const char* variable = kJobVariable);

// How many processes of this user end_leftovers() would find by their environment.
int count_leftovers(const std::string& job, const char* variable = kJobVariable);

// Whether the table of processes (/proc) can be read: without it neither finds anything.
bool can_find_leftovers();

}  // namespace cohort::launch
