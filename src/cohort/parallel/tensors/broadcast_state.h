#pragma once

#include <torch/torch.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cohort/parallel/tensors/named_tensors.h"
#include "cohort/parallel/tensors/ops.h"

// What makes all ranks begin alike: one rank's parameters, optimizer state and objects, everywhere.
// All functions are collective over `group` (a Context will do). Failure as ops.h; ranks whose
// tensors differ in name, shape or type are named in an InvalidInput on every rank, and nothing is
// changed.
namespace cohort::parallel {

// The root's values, in place.
void broadcast_parameters(collective::Group& group, const NamedTensors& tensors, int root = 0,
                          CallOptions options = {});
// A module's parameters and buffers.
void broadcast_parameters(collective::Group& group, const torch::nn::Module& module, int root = 0,
                          CallOptions options = {});

// Everything that the root's optimizer would save: momentum and other tensors, step counters,
// learning rates and other options of every parameter group. A rank that has no state yet gets it.
// For every optimizer that implements torch::save (all of LibTorch's do).
void broadcast_optimizer_state(collective::Group& group, torch::optim::Optimizer& optimizer,
                               int root = 0, CallOptions options = {});

// The root's text or JSON value; what the other ranks give does not matter.
std::string broadcast_object(collective::Group& group, const std::string& object, int root = 0,
                             CallOptions options = {});
nlohmann::json broadcast_json(collective::Group& group, const nlohmann::json& object, int root = 0,
                              CallOptions options = {});

// The mean of every metric over the ranks, each rank counting as much as its weight: give the
// number of samples where ranks have seen different numbers. All ranks give the same names.
std::map<std::string, double> average_metrics(collective::Group& group,
                                              const std::map<std::string, double>& metrics,
                                              double weight = 1, CallOptions options = {});

}  // namespace cohort::parallel
