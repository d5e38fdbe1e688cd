#include "cohort/train/model/model.h"

#include <map>
#include <string>

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

// LibTorch's clone() makes two tensors of one that the module has under two names (tied weights):
// they would be trained apart.
void expect_ties_as(const torch::nn::Module& original, const torch::nn::Module& copy) {
  std::map<const void*, std::string> names;
  const auto copies = copy.named_parameters();
  for (const auto& item : original.named_parameters()) {
    const auto [first, is_new] = names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (is_new) continue;
    const torch::Tensor* one = copies.find(first->second);
    const torch::Tensor* other = copies.find(item.key());
    if (one == nullptr || other == nullptr || !one->is_same(*other))
      throw InvalidInput(
          fmt::format("the module {} has one tensor as '{}' and '{}', its copy for a second "
                      "replica has two",
                      original.name(), first->second, item.key()),
          {.advice = "Give the Trainer a function that makes the model: [] { return "
                     "std::make_shared<Net>(); }, or start more workers instead."});
  }
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
  expect_ties_as(*module_, *copy.module_);
  freeze_as(*module_, *copy.module_);
  return copy;
}

}  // namespace cohort::train
