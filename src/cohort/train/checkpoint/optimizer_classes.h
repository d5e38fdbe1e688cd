#pragma once

#include <torch/torch.h>

#include <string>
#include <type_traits>
#include <typeinfo>

#include "cohort/base/error.h"

// What each torch::optim class keeps, as one list of fields a class: saving, restoring and cloning
// follow from these lists. Internal to this folder.
//
// options() and state() call visit(name, field) for every field, in a fixed order. Options are
// double, bool or a pair of doubles; state is int64_t or a tensor of its parameter's shape.
namespace cohort::train::optimizer_classes {

struct Sgd {
  using Optimizer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr const char* kName = "SGD";

  static void options(auto& options, auto&& visit) {
    visit("lr", options.lr());
    visit("momentum", options.momentum());
    visit("dampening", options.dampening());
    visit("weight_decay", options.weight_decay());
    visit("nesterov", options.nesterov());
  }
  static void state(auto& state, auto&& visit) {
    visit("momentum_buffer", state.momentum_buffer());
  }
};

template <typename OptimizerT, typename OptionsT, typename StateT>
struct AdamLike {
  using Optimizer = OptimizerT;
  using Options = OptionsT;
  using State = StateT;

  static void options(auto& options, auto&& visit) {
    visit("lr", options.lr());
    visit("betas", options.betas());
    visit("eps", options.eps());
    visit("weight_decay", options.weight_decay());
    visit("amsgrad", options.amsgrad());
  }
  static void state(auto& state, auto&& visit) {
    visit("step", state.step());
    visit("exp_avg", state.exp_avg());
    visit("exp_avg_sq", state.exp_avg_sq());
    visit("max_exp_avg_sq", state.max_exp_avg_sq());
  }
};

struct Adam
    : AdamLike<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
  static constexpr const char* kName = "Adam";
};

struct AdamW
    : AdamLike<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState> {
  static constexpr const char* kName = "AdamW";
};

struct RmsProp {
  using Optimizer = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;
  static constexpr const char* kName = "RMSprop";

  static void options(auto& options, auto&& visit) {
    visit("lr", options.lr());
    visit("alpha", options.alpha());
    visit("eps", options.eps());
    visit("weight_decay", options.weight_decay());
    visit("momentum", options.momentum());
    visit("centered", options.centered());
  }
  static void state(auto& state, auto&& visit) {
    visit("step", state.step());
    visit("square_avg", state.square_avg());
    visit("momentum_buffer", state.momentum_buffer());
    visit("grad_avg", state.grad_avg());
  }
};

struct Adagrad {
  using Optimizer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr const char* kName = "Adagrad";

  static void options(auto& options, auto&& visit) {
    visit("lr", options.lr());
    visit("lr_decay", options.lr_decay());
    visit("weight_decay", options.weight_decay());
    visit("initial_accumulator_value", options.initial_accumulator_value());
    visit("eps", options.eps());
  }
  static void state(auto& state, auto&& visit) {
    visit("step", state.step());
    visit("sum", state.sum());
  }
};

// Calls use(Class{}) for the class of `optimizer`, or otherwise() for any other: a class derived from
// one of these may keep more than the list says, so it is as unknown as the rest.
template <typename Use, typename Otherwise>
auto with_class_or(const torch::optim::Optimizer& optimizer, Use&& use, Otherwise&& otherwise) {
  const std::type_info& type = typeid(optimizer);
  if (type == typeid(torch::optim::SGD)) return use(Sgd{});
  if (type == typeid(torch::optim::Adam)) return use(Adam{});
  if (type == typeid(torch::optim::AdamW)) return use(AdamW{});
  if (type == typeid(torch::optim::RMSprop)) return use(RmsProp{});
  if (type == typeid(torch::optim::Adagrad)) return use(Adagrad{});
  return otherwise();
}

// The same; an unknown class is an InvalidInput that ends in `advice`.
template <typename Use>
auto with_class(const torch::optim::Optimizer& optimizer, const std::string& advice, Use&& use) {
  return with_class_or(optimizer, use, [&]() -> decltype(use(Sgd{})) {
    const std::type_info& type = typeid(optimizer);
    throw InvalidInput(
        fmt::format("the optimizer is {}; known are SGD, Adam, AdamW, RMSprop and Adagrad of "
                    "torch::optim",
                    type == typeid(torch::optim::LBFGS)
                        ? "LBFGS, whose history belongs to no single parameter"
                        : "of the class " + c10::demangle(type.name())),
        {.advice = advice});
  });
}

// The key of a parameter in Optimizer::state(): its address.
inline void* state_key(const torch::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }
using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

}  // namespace cohort::train::optimizer_classes
