#include "cohort/train/model/weight_average.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

// A parameter as its average has it.
torch::Tensor as_averaged(const torch::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  const torch::Tensor values = parameter.detach();
  return type == torch::kHalf || type == torch::kBFloat16 ? values.to(torch::kFloat32) : values;
}

}  // namespace

WeightAverage::WeightAverage(const torch::nn::Module& module, EmaOptions options)
    : options_(options) {
  if (!(options.decay >= 0 && options.decay < 1))
    throw InvalidInput(fmt::format("ema.decay must be 0 (none) or below 1, got {}", options.decay),
                       {.advice = "Give 0.999, say: the average is over some 1000 updates."});
  if (!is_kept()) return;
  std::unordered_set<const void*> seen;  // a tied weight has several names
  for (const auto& item : module.named_parameters())
    if (item.value().is_floating_point() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters_.push_back({.name = item.key(), .parameter = item.value(), .average = {}});
}

void WeightAverage::update() {
  if (!is_kept()) return;
  torch::NoGradGuard no_gradients;
  const auto n = static_cast<double>(updates_);
  const double decay =
      options_.ramp ? std::min(options_.decay, (1 + n) / (10 + n)) : options_.decay;
  const bool first = updates_++ == 0;
  for (Averaged& item : parameters_) {
    if (first)
      item.average = as_averaged(item.parameter).clone();
    else
      item.average.lerp_(as_averaged(item.parameter), 1 - decay);
  }
}

WeightAverage::Scope::Scope(WeightAverage& average) : average_(average) {
  if (!average.options_.evaluate || average.updates_ == 0) return;
  torch::NoGradGuard no_gradients;
  for (const Averaged& item : average.parameters_) own_.push_back(item.parameter.detach().clone());
  average.copy_to_module();
}

WeightAverage::Scope::~Scope() {
  torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < own_.size(); ++i)
    average_.parameters_[i].parameter.detach().copy_(own_[i]);
}

void WeightAverage::copy_to_module() const {
  torch::NoGradGuard no_gradients;
  for (const Averaged& item : parameters_) item.parameter.detach().copy_(item.average);
}

void WeightAverage::apply() const {
  if (updates_ == 0)
    throw InvalidInput("there are no averaged weights",
                       {.advice = "Set TrainerOptions::ema.decay, and train or load before."});
  copy_to_module();
}

TensorMap WeightAverage::tensors() const {
  TensorMap tensors;
  if (updates_ > 0)
    for (const Averaged& item : parameters_) tensors.emplace(item.name, item.average);
  return tensors;
}

void WeightAverage::set_updates(std::int64_t updates) {
  updates_ = is_kept() ? updates : 0;
  for (Averaged& item : parameters_)
    if (updates_ == 0)
      item.average = torch::Tensor();
    else if (!item.average.defined())
      item.average = as_averaged(item.parameter).clone();
}

void WeightAverage::restore(const TensorMap& tensors) {
  if (!is_kept()) return;
  for (const Averaged& item : parameters_) {
    const auto found = tensors.find(item.name);
    if (found == tensors.end() || found->second.sizes() != item.parameter.sizes())
      throw InvalidInput(
          fmt::format("the saved averages of the weights are not of this model: '{}' is {}",
                      item.name, found == tensors.end() ? "missing" : "of another shape"),
          {.advice = "Build the model with the options that it was saved with."});
  }
  set_updates(std::max<std::int64_t>(updates_, 1));
  for (Averaged& item : parameters_) item.average.copy_(tensors.at(item.name));
}

}  // namespace cohort::train
