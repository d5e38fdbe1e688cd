#include "cohort/train/model/model.h"

#include "cohort/base/error.h"

namespace cohort::train {

namespace {

// A copy's parameters all require gradients, whatever the original's do.
void freeze_as(const torch::nn::Module& original, torch::nn::Module& copy) {
  const auto from = original.named_parameters();
  for (auto& item : copy.named_parameters())
    if (const torch::Tensor* parameter = from.find(item.key()))
      item.value().set_requires_grad(parameter->requires_grad());
}

}  // namespace

torch::Tensor Model::forward(const torch::Tensor& input) const {
  if (forward_) return forward_(*module_, input);
  throw InvalidInput(
      fmt::format("the model {} has no forward() from one tensor to one tensor", module_->name()),
      {.advice = "Give a training step: [](Net& net, const MyBatch& batch) -> cohort::Loss, and a "
                 "function to predict()."});
}

Model Model::replicate(torch::Device device) const {
  Model copy = *this;
  if (make_) {
    copy.module_ = make_();
    copy.module_->to(device);
    freeze_as(*module_, *copy.module_);
    return copy;
  }
  try {
    copy.module_ = module_->clone(device);
  } catch (const c10::Error&) {
    throw InvalidInput(
        fmt::format("the module {} cannot be copied for a second replica", module_->name()),
        {.advice = "Derive it from torch::nn::Cloneable, or give the Trainer a function that makes "
                   "one: [] { return std::make_shared<Net>(); }."});
  }
  freeze_as(*module_, *copy.module_);
  return copy;
}

}  // namespace cohort::train
