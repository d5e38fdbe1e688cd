#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cohort/base/process/last_word.h"
#include "cohort/engine/engine.h"

// What the API's objects say of a pod and of a Job. Pure functions.
namespace cohort::engine::kubernetes {

struct PodStatus {
  std::string name, uid, node, created;
  int index = -1;  // JOB_COMPLETION_INDEX; -1: no pod of an Indexed Job
  enum class Phase { pending, running, succeeded, failed };
  Phase phase = Phase::pending;
  bool is_leaving = false;       // it was told to end
  std::optional<int> exit_code;  // of its container
  std::string started, ended;    // "2026-11-16T22:51:45Z"
  std::string reason;            // in Kubernetes' words: "OOMKilled", "Evicted"; "": none
  std::string message;           // of an eviction
  LastWord last_word;
  std::string last_lines;  // of the log of a failed container that left no last word; "": unknown
  std::string waits_for;   // a sentence, of one that does not run yet

  bool has_ended() const { return phase == Phase::succeeded || phase == Phase::failed; }
};

PodStatus read_pod(const nlohmann::json& pod);

// As the service shows a task.
TaskStatus as_task(const PodStatus& pod, const std::string& name, int restarts);

enum class JobEnd { none, complete, failed };
struct JobConditions {
  JobEnd end = JobEnd::none;
  std::string reason, message;  // of a failed one: "PodFailurePolicy"
  bool is_suspended = false;    // by Kueue, or by a person
};
JobConditions read_job(const nlohmann::json& job);

}  // namespace cohort::engine::kubernetes
