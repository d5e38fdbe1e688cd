#pragma once

#include <filesystem>
#include <string>

#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/job.h"

// What `cohort pod-task` does in each pod: the same image and the same command for every task.
namespace cohort::engine::kubernetes {

// Files of the attempt's Secret, as they are mounted.
inline constexpr const char* kRequestFile = "attempt.json";
inline constexpr const char* kSecretFile = "secret";
inline constexpr const char* kSourceFile = "source.tar.gz";

// How many pods of the same index failed before this one, as Kubernetes tells its pods; it has the
// note where backoffLimitPerIndex is set, from 1.29 on.
inline constexpr const char* kFailuresVariable = "COHORT_POD_FAILURES";

struct PodPlace {
  std::string job, service;         // their names
  int index = 0;                    // JOB_COMPLETION_INDEX
  std::filesystem::path mounted;    // the attempt's Secret
  std::filesystem::path last_word;  // the container's termination message; "": none
};

// JOB_COMPLETION_INDEX, which every pod of an Indexed Job has. Throws InvalidInput without.
int completion_index(const cluster::Environment& environment);

// Runs the task of this pod and returns its exit code, 128 + the signal that killed it: the source
// is unpacked, what is missing is said all at once, the program gets the variables of its role and
// instance, and the signals that this process gets. Its last word (base/process/last_word.h)
// becomes the container's termination message. Pod 0 of an elastic job runs store and coordinator
// instead. `asked` is what the request's run_words say. Call it once, in the main thread.
// Throws InvalidInput, SystemError.
int run_pod_task(AttemptRequest request, launch::JobOptions asked, const PodPlace& place,
                 const cluster::Environment& inherited);

}  // namespace cohort::engine::kubernetes
