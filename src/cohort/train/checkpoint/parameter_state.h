#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

// What a torch::optim optimizer keeps for one parameter, by the names of its fields: for those who
// cut it into parts and put it together again. SGD, Adam, AdamW, RMSprop and Adagrad; others,
// derived ones too, are an InvalidInput that names them.
//
// Call from the thread that trains, between steps.
namespace cohort::train {

struct ParameterState {
  std::map<std::string, std::int64_t> numbers;   // "step"
  std::map<std::string, torch::Tensor> tensors;  // the optimizer's own; defined ones only
};

// Nothing where the optimizer has no state for the parameter.
std::optional<ParameterState> read_parameter_state(const torch::optim::Optimizer& optimizer,
                                                   const torch::Tensor& parameter);

// Replaces the parameter's state; the optimizer keeps the tensors that are given. Nothing: erases it.
void write_parameter_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                           const std::optional<ParameterState>& state);

}  // namespace cohort::train
