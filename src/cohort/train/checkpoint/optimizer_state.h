#pragma once

#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/train/checkpoint/safetensors.h"

// The state of a torch::optim optimizer, keyed by its parameters' names, so that it fits a fresh
// optimizer over a fresh model: training goes on with the same bits. SGD, Adam, AdamW, RMSprop and
// Adagrad; LBFGS, derived and other classes are an InvalidInput that names them.
//
// Call from the thread that trains, between steps.
namespace cohort::train {

// Parameters' names, found by the parameters themselves. A parameter shared between two modules
// goes by the name that was added first.
class ParameterNames {
 public:
  explicit ParameterNames(const torch::nn::Module& module) { add("", module); }
  void add(const std::string& prefix, const torch::nn::Module& module);
  // Null when unknown.
  const std::string* find(const torch::Tensor& parameter) const;

 private:
  std::unordered_map<const void*, std::string> names_;
};

struct OptimizerState {
  // "<field>.<parameter>", e.g. "exp_avg.conv1.weight". Shares the optimizer's memory.
  TensorMap tensors;
  // {"class": "Adam", "groups": [{"options": {"lr": ...}, "parameters": [names]}],
  //  "state": {"conv1.weight": {"step": 12}}}
  nlohmann::json scalars;
};

// InvalidInput when a parameter of the optimizer has no name.
OptimizerState capture_optimizer(const torch::optim::Optimizer& optimizer,
                                 const ParameterNames& names);

// Gives `optimizer` the saved options and state of every parameter (copies, on its parameter's
// device). InvalidInput names everything that does not fit; the optimizer is then unchanged.
void restore_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const OptimizerState& saved);

// The optimizer's state tensors themselves, in the order of groups, parameters and fields: the same
// on every rank whose optimizers were built alike and made the same steps. For ranks that may have
// none yet, broadcast `scalars` as text, describe_tensors(tensors) as text, then each tensor of the
// map in its order into allocate_tensors(), and restore_optimizer() from that.
std::vector<torch::Tensor> optimizer_state_tensors(const torch::optim::Optimizer& optimizer);

}  // namespace cohort::train
