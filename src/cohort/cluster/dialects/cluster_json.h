#pragma once

#include <string>
#include <string_view>

#include "cohort/cluster/cluster_spec.h"

// A ClusterSpec as JSON: {"chief":["h0:1"],"worker":["h1:1","h2:1"]}, the form of TF_CONFIG's
// "cluster" and of COHORT_CLUSTER. Pure functions.
namespace cohort::cluster {

enum class Evaluator { keep, leave_out };

// One line, no spaces; "{}" for an empty cluster.
std::string write_cluster_json(const ClusterSpec& cluster, Evaluator evaluator);

// Takes a list of addresses for each job, or a dictionary {"0": "h0:1", "1": "h1:1"} without gaps.
// Does not validate() the whole, so an empty one is fine. Throws InvalidInput that begins with
// `source` (the variable's name) for broken JSON, an unknown job, a wrong type, a bad address.
ClusterSpec parse_cluster_json(std::string_view json, std::string_view source);

}  // namespace cohort::cluster
