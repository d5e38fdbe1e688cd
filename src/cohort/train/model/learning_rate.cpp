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
  set_factors(name, {factor});
}

void LearningRate::set_factors(const std::string& name, std::vector<double> factors) {
  COHORT_CHECK(!factors.empty(), "no factor '{}'", name);
  for (const double factor : factors) check(factor, "factor of the learning rate");
  factors_[name] = std::move(factors);
  update();
}

std::vector<double> LearningRate::base_rates() const {
  std::vector<double> rates;
  for (const double ratio : ratios_) rates.push_back(base_ * ratio);
  return rates;
}

std::vector<double> LearningRate::rates() const {
  std::vector<double> rates;
  for (const auto* group : groups_of(optimizers_)) rates.push_back(group->options().get_lr());
  return rates;
}

void LearningRate::apply(const std::vector<double>& rates) {
  const auto groups = groups_of(optimizers_);
  for (std::size_t i = 0; i < groups.size() && i < rates.size(); ++i)
    groups[i]->options().set_lr(rates[i]);
}

void LearningRate::update() {
  std::vector<double> rates;
  for (std::size_t i = 0; i < groups_of(optimizers_).size(); ++i) {
    double rate = base_;
    for (const auto& [name, factors] : factors_) rate *= factors[i < factors.size() ? i : 0];
    // A group that was added since has the rate of the base.
    rates.push_back(rate * (i < ratios_.size() ? ratios_[i] : 1));
  }
  apply(rates);
}

}  // namespace cohort::train
