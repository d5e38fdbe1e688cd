#include "cohort/train/checkpoint/optimizer_slots.h"

#include <memory>
#include <type_traits>

#include "cohort/train/checkpoint/optimizer_classes.h"

namespace cohort::train {
namespace {

using optimizer_classes::state_key;
using optimizer_classes::with_class;
using optimizer_classes::with_class_or;
using ps::UpdateRule;

constexpr const char* kSlotAdvice =
    "Parameter servers make the updates themselves: use one of those, or multi_worker_mirrored.";

template <typename Class>
constexpr UpdateRule::Kind kind_of() {
  if constexpr (std::is_same_v<Class, optimizer_classes::Sgd>) return UpdateRule::Kind::sgd;
  if constexpr (std::is_same_v<Class, optimizer_classes::Adam>) return UpdateRule::Kind::adam;
  if constexpr (std::is_same_v<Class, optimizer_classes::AdamW>) return UpdateRule::Kind::adamw;
  if constexpr (std::is_same_v<Class, optimizer_classes::RmsProp>) return UpdateRule::Kind::rmsprop;
  if constexpr (std::is_same_v<Class, optimizer_classes::Adagrad>) return UpdateRule::Kind::adagrad;
}

// Options, by their names, to the fields of a rule.
struct RuleWriter {
  UpdateRule& rule;
  void operator()(const std::string& name, double value) const {
    if (name == "momentum") rule.momentum = value;
    if (name == "dampening") rule.dampening = value;
    if (name == "weight_decay") rule.weight_decay = value;
    if (name == "eps") rule.eps = value;
    if (name == "alpha") rule.alpha = value;
    if (name == "lr_decay") rule.lr_decay = value;
    if (name == "initial_accumulator_value") rule.initial_accumulator = value;
  }
  void operator()(const std::string& name, bool value) const {
    if (name == "nesterov") rule.nesterov = value;
    if (name == "amsgrad") rule.amsgrad = value;
    if (name == "centered") rule.centered = value;
  }
  void operator()(const std::string&, const std::tuple<double, double>& betas) const {
    std::tie(rule.beta1, rule.beta2) = betas;
  }
};

// The state of `parameter`, or null.
template <typename Class>
const typename Class::State* state_of(const torch::optim::Optimizer& optimizer,
                                      const torch::Tensor& parameter) {
  const auto found = optimizer.state().find(state_key(parameter));
  return found == optimizer.state().end()
             ? nullptr
             : static_cast<const typename Class::State*>(found->second.get());
}

}  // namespace

bool has_update_rules(const torch::optim::Optimizer& optimizer) {
  return with_class_or(
      optimizer, [](auto) { return true; }, [] { return false; });
}

std::vector<UpdateRule> update_rules(const torch::optim::Optimizer& optimizer) {
  return with_class(optimizer, kSlotAdvice, [&](auto known) {
    using Class = decltype(known);
    std::vector<UpdateRule> rules;
    for (const auto& group : optimizer.param_groups()) {
      UpdateRule rule{.kind = kind_of<Class>(), .lr = 0};
      Class::options(static_cast<const typename Class::Options&>(group.options()),
                     RuleWriter{rule});
      rules.push_back(rule);
    }
    return rules;
  });
}

torch::Tensor find_slot(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                        const std::string& slot) {
  torch::Tensor found;
  with_class(optimizer, kSlotAdvice, [&](auto known) {
    using Class = decltype(known);
    const auto* state = state_of<Class>(optimizer, parameter);
    if (state == nullptr) return;
    Class::state(*state, [&](const std::string& name, const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>)
        if (name == slot) found = value;
    });
  });
  return found;
}

std::int64_t updates_of(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                        std::int64_t otherwise) {
  std::int64_t updates = 0;
  with_class(optimizer, kSlotAdvice, [&](auto known) {
    using Class = decltype(known);
    const auto* state = state_of<Class>(optimizer, parameter);
    if (state == nullptr) return;
    updates = otherwise;
    Class::state(*state, [&](const std::string& name, const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>)
        if (name == "step") updates = value;
    });
  });
  return updates;
}

namespace {

// Writes slots and count into the state, and leaves what else it holds.
template <typename Class>
void write(typename Class::State& state, const UpdateRule& rule,
           const std::vector<torch::Tensor>& slots, std::int64_t updates) {
  Class::state(state, [&](const std::string& name, auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
      for (std::size_t i = 0; i < slots.size(); ++i)
        if (name == ps::slot_name(rule, static_cast<int>(i))) value = slots[i];
    } else if (name == "step") {
      value = updates;
    }
  });
}

}  // namespace

void set_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
               const UpdateRule& rule, const std::vector<torch::Tensor>& slots,
               std::int64_t updates) {
  with_class(optimizer, kSlotAdvice, [&](auto known) {
    using Class = decltype(known);
    // As torch::optim leaves a parameter that was never updated, or whose rule keeps nothing.
    if (slots.empty() || (updates == 0 && rule.kind != UpdateRule::Kind::adagrad)) {
      optimizer.state().erase(state_key(parameter));
      return;
    }
    auto state = std::make_unique<typename Class::State>();
    write<Class>(*state, rule, slots, updates);
    optimizer.state()[state_key(parameter)] = std::move(state);
  });
}

void update_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                  const UpdateRule& rule, const std::vector<torch::Tensor>& slots,
                  std::int64_t updates) {
  if (slots.empty()) return;
  with_class(optimizer, kSlotAdvice, [&](auto known) {
    using Class = decltype(known);
    auto& state = optimizer.state()[state_key(parameter)];
    if (!state) state = std::make_unique<typename Class::State>();
    write<Class>(static_cast<typename Class::State&>(*state), rule, slots, updates);
  });
}

}  // namespace cohort::train
