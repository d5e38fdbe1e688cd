#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cohort/report/proto.h"

// The messages of TensorBoard's hyperparameter plugin: one run is one session of an experiment.
// Pure functions; times are seconds since 1970.
namespace cohort::report {

using HyperParameter = std::variant<bool, double, std::string>;
using HyperParameters = std::map<std::string, HyperParameter>;

enum class SessionStatus { success = 1, failure = 2, running = 3 };  // tensorboard.hparams.Status

// A tag of the plugin and what the metadata of its summary holds.
struct HparamsEntry {
  const char* tag;
  Proto content;  // tensorboard.hparams.HParamsPluginData
};

// What is tuned, and the tags of the scalars that the runs are compared by.
HparamsEntry experiment_entry(const HyperParameters& parameters,
                              const std::vector<std::string>& metrics, double now);
HparamsEntry session_start_entry(const HyperParameters& parameters, double now);
HparamsEntry session_end_entry(SessionStatus status, double now);

}  // namespace cohort::report
