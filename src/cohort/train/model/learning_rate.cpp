#include "cohort/train/model/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::vector<torch::optim::OptimizerParamGroup*> groups_of(
    const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::vector<torch::optim::OptimizerParamGroup*> groups;
  for (torch::optim::Optimizer* optimizer : optimizers) {
    if (optimizer->param_groups().empty())
      throw InvalidInput("the optimizer has no parameters",
                         {.advice = "Make it with model->parameters()."});
    for (auto& group : optimizer->param_groups()) groups.push_back(&group);
  }
  return groups;
}

void check(double value, const char* what) {
  if (!(value >= 0) || !std::isfinite(value))
    throw InvalidInput(fmt::format("{} must be finite and 0 or more, got {}", what, value));
}

}  // namespace

LearningRate::LearningRate(std::vector<torch::optim::Optimizer*> optimizers)
    : optimizers_(std::move(optimizers)) {
  const auto groups = groups_of(optimizers_);
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [](const auto* group) { return group->options().get_lr() != 0; });
  base_group_ = found == groups.end() ? 0 : static_cast<std::size_t>(found - groups.begin());
  base_ = groups[base_group_]->options().get_lr();
  for (const auto* group : groups)
    ratios_.push_back(base_ == 0 ? 1 : group->options().get_lr() / base_);
}

double LearningRate::get() const { return groups_of(optimizers_)[base_group_]->options().get_lr(); }

double LearningRate::of(std::size_t optimizer) const {
  return groups_of({optimizers_.at(optimizer)}).front()->options().get_lr();
}

void LearningRate::set_base(double rate) {
  check(rate, "learning rate");
  base_ = rate;
  update();
}

void LearningRate::set_factor(const std::string& name, double factor) {
  check(factor, "factor of the learning rate");
  factors_[name] = factor;
  update();
}

void LearningRate::apply(double rate) {
  const auto groups = groups_of(optimizers_);
  // A group that was added since has the rate of the base.
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i]->options().set_lr(rate * (i < ratios_.size() ? ratios_[i] : 1));
}

void LearningRate::update() {
  double rate = base_;
  for (const auto& [name, factor] : factors_) rate *= factor;
  apply(rate);
}

}  // namespace cohort::train
