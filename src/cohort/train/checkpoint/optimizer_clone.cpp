#include "cohort/train/checkpoint/optimizer_clone.h"

#include <fmt/format.h>

#include <unordered_map>

#include "cohort/train/checkpoint/optimizer_classes.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {

std::unique_ptr<torch::optim::Optimizer> clone_optimizer(const torch::optim::Optimizer& optimizer,
                                                         const std::vector<torch::Tensor>& from,
                                                         const std::vector<torch::Tensor>& to) {
  if (from.size() != to.size())
    throw InvalidInput(fmt::format("an optimizer cannot be cloned from {} parameters to {}",
                                   from.size(), to.size()),
                       {.advice = "Give both models' parameters in the same order."});
  std::unordered_map<const void*, torch::Tensor> replacement;
  for (std::size_t i = 0; i < from.size(); ++i)
    replacement.emplace(from[i].unsafeGetTensorImpl(), to[i]);
  auto clone = [&](auto known) -> std::unique_ptr<torch::optim::Optimizer> {
    using Class = decltype(known);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& group : optimizer.param_groups()) {
      std::vector<torch::Tensor> parameters;
      for (const auto& parameter : group.params()) {
        auto found = replacement.find(parameter.unsafeGetTensorImpl());
        if (found == replacement.end())
          throw InvalidInput(
              fmt::format("the optimizer has a parameter of shape {} that the model does not",
                          shape_text(parameter.sizes().vec())));
        if (found->second.defined()) parameters.push_back(found->second);
      }
      groups.emplace_back(std::move(parameters), group.options().clone());
    }
    auto copy = std::make_unique<typename Class::Optimizer>(
        groups, static_cast<const typename Class::Options&>(optimizer.defaults()));
    // torch 2.13 takes a group's option that equals its class's default for one that was not given.
    for (std::size_t i = 0; i < groups.size(); ++i)
      copy->param_groups()[i].set_options(optimizer.param_groups()[i].options().clone());
    return copy;
  };
  return optimizer_classes::with_class(
      optimizer, "Give a factory that makes the optimizer for given parameters instead.", clone);
}

}  // namespace cohort::train
