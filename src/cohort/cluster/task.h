#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace cohort::cluster {

// What a task does for its job. `chief` and `master` are two names of one thing (tf.distribute's
// and the Estimator's); a cluster has at most one of the two.
enum class TaskType { chief, master, worker, ps, evaluator };

// "chief", "master", "worker", "ps", "evaluator".
std::string_view to_string(TaskType type);
// Throws InvalidInput "Invalid task type 'x'" that lists the valid ones.
TaskType parse_task_type(std::string_view text);

// One member of the job: worker/1.
struct TaskId {
  TaskType type = TaskType::worker;
  int index = 0;

  auto operator<=>(const TaskId&) const = default;
};

std::string to_string(const TaskId& task);    // "worker/1"
TaskId parse_task_id(std::string_view text);  // accepts "worker/1" and "worker:1"

}  // namespace cohort::cluster
