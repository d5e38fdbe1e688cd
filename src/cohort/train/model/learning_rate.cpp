#include "cohort/train/model/learning_rate.h"

#include <cmath>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

double first_rate(const torch::optim::Optimizer& optimizer) {
  if (optimizer.param_groups().empty())
    throw InvalidInput("the optimizer has no parameters",
                       {.advice = "Make it with model->parameters()."});
  return optimizer.param_groups().front().options().get_lr();
}

void check(double value, const char* what) {
  if (!(value >= 0) || !std::isfinite(value))
    throw InvalidInput(fmt::format("{} is not a {}", value, what),
                       {.advice = "Give a finite number that is not negative."});
}

}  // namespace

LearningRate::LearningRate(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), base_(first_rate(optimizer)) {
  for (const auto& group : optimizer.param_groups())
    ratios_.push_back(base_ == 0 ? 1 : group.options().get_lr() / base_);
}

double LearningRate::get() const { return first_rate(optimizer_); }

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
  auto& groups = optimizer_.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rate * ratios_[i]);
}

void LearningRate::update() {
  double rate = base_;
  for (const auto& [name, factor] : factors_) rate *= factor;
  apply(rate);
}

}  // namespace cohort::train
