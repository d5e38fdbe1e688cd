#pragma once

#include <string>
#include <string_view>

#include "cohort/cluster/role.h"

// TensorFlow's dialect: the variable TF_CONFIG, a JSON text. Pure functions.
namespace cohort::cluster {

inline constexpr std::string_view kTfConfig = "TF_CONFIG";

// Reads every form that TensorFlow accepts:
// - "cluster" missing, null or empty: the process is alone; its task may then be missing, a
//   worker, chief or master with index 0, or an evaluator;
// - a job's tasks as a list, or as a dictionary {"0": "host:port", ...} without gaps;
// - "task.index" as a number or as text; it may be missing where the job has one task;
// - an evaluator that the cluster does not list;
// - any "environment" and "rpc_layer", and unknown keys, which are all ignored.
// Ranks follow from the cluster; TF_CONFIG cannot say that a chief does not train
// (COHORT_CHIEF_TRAINS can).
// Throws InvalidInput, naming the value and the fix: broken JSON (with the place), a cluster that
// ClusterSpec::validate refuses, no task where there is a cluster, a task that the cluster lacks.
Role parse_tf_config(std::string_view json);

// {"cluster":{...},"task":{"type":"worker","index":1},"environment":"cloud"} on one line. The
// evaluator is left out of the cluster, as TensorFlow wants it.
std::string write_tf_config(const Role& role);
// The same with `cluster` made from role.cluster before.
std::string write_tf_config(const Role& role, const std::string& cluster);

}  // namespace cohort::cluster
