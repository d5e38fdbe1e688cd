#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/ps/rules/update_rule.h"

// A torch::optim optimizer as parameter servers know it: an update rule for each group of
// parameters, and for each parameter a row of slots and a number of updates. SGD, Adam, AdamW,
// RMSprop and Adagrad; others, derived ones too, are an InvalidInput that names them.
//
// Call from the thread that trains, between steps.
namespace cohort::train {

// Whether the optimizer is of one of these classes.
bool has_update_rules(const torch::optim::Optimizer& optimizer);

// By parameter group. `lr` is left at 0: each update is told its own.
std::vector<ps::UpdateRule> update_rules(const torch::optim::Optimizer& optimizer);

// The state tensor of a parameter that the rule calls `slot` (ps::slot_name), or an undefined one
// where there is none yet.
torch::Tensor find_slot(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                        const std::string& slot);
// How many updates the parameter's state has behind it. For an optimizer that does not count (SGD):
// `otherwise` where there is state, else 0.
std::int64_t updates_of(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                        std::int64_t otherwise);

// Replaces the parameter's state: `slots[i]` under the name of the rule's slot i.
void set_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
               const ps::UpdateRule& rule, const std::vector<torch::Tensor>& slots,
               std::int64_t updates);
// The same of those slots alone: what else the state has stays, as in optimizer.step().
void update_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                  const ps::UpdateRule& rule, const std::vector<torch::Tensor>& slots,
                  std::int64_t updates);

}  // namespace cohort::train
