#include "cohort/train/checkpoint/parameter_state.h"

#include <memory>
#include <type_traits>

#include "cohort/train/checkpoint/optimizer_classes.h"

namespace cohort::train {
namespace {

constexpr const char* kSharedStateAdvice =
    "Workers can divide the state of one of those; or set shard to none.";

}  // namespace

std::optional<ParameterState> read_parameter_state(const torch::optim::Optimizer& optimizer,
                                                   const torch::Tensor& parameter) {
  return optimizer_classes::with_class(
      optimizer, kSharedStateAdvice, [&](auto known) -> std::optional<ParameterState> {
        using Class = decltype(known);
        const auto found = optimizer.state().find(optimizer_classes::state_key(parameter));
        if (found == optimizer.state().end()) return std::nullopt;
        ParameterState state;
        Class::state(static_cast<const typename Class::State&>(*found->second),
                     [&](const char* name, const auto& value) {
                       if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
                         if (value.defined()) state.tensors.emplace(name, value);
                       } else {
                         state.numbers.emplace(name, value);
                       }
                     });
        return state;
      });
}

void write_parameter_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                           const std::optional<ParameterState>& state) {
  optimizer_classes::with_class(optimizer, kSharedStateAdvice, [&](auto known) {
    using Class = decltype(known);
    if (!state) {
      optimizer.state().erase(optimizer_classes::state_key(parameter));
      return;
    }
    auto made = std::make_unique<typename Class::State>();
    Class::state(*made, [&](const char* name, auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
        if (const auto found = state->tensors.find(name); found != state->tensors.end())
          value = found->second;
      } else {
        if (const auto found = state->numbers.find(name); found != state->numbers.end())
          value = found->second;
      }
    });
    optimizer.state()[optimizer_classes::state_key(parameter)] = std::move(made);
  });
}

}  // namespace cohort::train
