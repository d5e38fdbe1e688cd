#pragma once

#include <torch/torch.h>

#include <concepts>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "cohort/train/data/any_batch.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/model/losses.h"
#include "cohort/train/model/model.h"

namespace cohort::train {

namespace step_detail {

// The parameter and result types of a function, or of an object with one operator().
template <typename F>
struct Signature {};
template <typename F>
requires requires { &F::operator(); }
struct Signature<F> : Signature<decltype(&F::operator())> {};
template <typename R, typename... A>
struct Signature<R(A...)> {
  using Result = R;
  static constexpr std::size_t count = sizeof...(A);
  template <std::size_t I>
  using Parameter = std::tuple_element_t<I, std::tuple<A...>>;
};
template <typename R, typename... A>
struct Signature<R (*)(A...)> : Signature<R(A...)> {};
template <typename R, typename... A>
struct Signature<R (*)(A...) noexcept> : Signature<R(A...)> {};
template <typename F, typename R, typename... A>
struct Signature<R (F::*)(A...)> : Signature<R(A...)> {};
template <typename F, typename R, typename... A>
struct Signature<R (F::*)(A...) const> : Signature<R(A...)> {};
template <typename F, typename R, typename... A>
struct Signature<R (F::*)(A...) noexcept> : Signature<R(A...)> {};
template <typename F, typename R, typename... A>
struct Signature<R (F::*)(A...) const noexcept> : Signature<R(A...)> {};

template <typename T>
concept HolderClass = std::is_base_of_v<torch::detail::ModuleHolderIndicator, T>;

template <typename F>
concept HasSignature = requires {
  typename Signature<std::decay_t<F>>::Result;
};

template <typename F, std::size_t I>
using ParameterOf = std::remove_cvref_t<typename Signature<std::decay_t<F>>::template Parameter<I>>;

template <typename F>
consteval bool takes_module_and_batch() {
  if constexpr (!HasSignature<F>) {
    return false;
  } else if constexpr (Signature<std::decay_t<F>>::count != 2) {
    return false;
  } else {
    using Net = ParameterOf<F, 0>;
    return (ModuleClass<Net> || HolderClass<Net>)&&(BatchType<ParameterOf<F, 1>> ||
                                                    std::same_as<ParameterOf<F, 1>, AnyBatch>);
  }
}

template <typename F>
using ResultOf = std::remove_cvref_t<typename Signature<std::decay_t<F>>::Result>;

// The model as the class or the holder that a function takes. InvalidInput where it is another.
[[noreturn]] void refuse_module(const torch::nn::Module& module, const std::type_info& wanted);

template <typename Net>
decltype(auto) module_as(const Model& model) {
  if constexpr (HolderClass<Net>) {
    auto found = std::dynamic_pointer_cast<typename Net::ContainedType>(model.ptr());
    if (!found) refuse_module(model.module(), typeid(typename Net::ContainedType));
    return Net(std::move(found));
  } else {
    auto* found = dynamic_cast<Net*>(&model.module());
    if (found == nullptr) refuse_module(model.module(), typeid(Net));
    return static_cast<Net&>(*found);
  }
}

template <typename F>
decltype(auto) call(const F& function, const Model& model, const AnyBatch& batch) {
  using B = ParameterOf<F, 1>;
  decltype(auto) net = module_as<ParameterOf<F, 0>>(model);
  if constexpr (std::same_as<B, AnyBatch>)
    return function(net, batch);
  else
    return function(net, batch.template as<B>());
}

}  // namespace step_detail

// A function of the model and a batch, whose types are read from its parameters: the model's class
// or its TORCH_MODULE holder, and a tensor tree (data/tensor_tree.h) or AnyBatch.
template <typename F>
concept StepFunction = step_detail::takes_module_and_batch<F>() &&
    (std::same_as<step_detail::ResultOf<F>, Loss> ||
     std::same_as<step_detail::ResultOf<F>, torch::Tensor>);

// A function of the model's output and the target, the short form.
template <typename F>
concept OutputLoss =
    std::is_invocable_r_v<torch::Tensor, const F&, const torch::Tensor&, const torch::Tensor&>;

// What is done with a batch in training: from the model and the batch to the loss. Made from
//
//   [](Net& net, const Sentences& batch) { return Loss{.mean = ..., .weight = ...}; }
//   [](Net& net, const Sentences& batch) { return net->forward(...).mean(); }   weight: the samples
//   cohort::cross_entropy         of forward(batch.data) and batch.target, where batches are Batch
//
// The function is called by several replicas of a process at once, each with its own model. It sees
// the batch on the model's device. In an evaluation too: in eval mode, without gradients.
// A value. Failure: InvalidInput where the model or the batch is of another type.
class TrainingStep {
 public:
  TrainingStep() = default;  // none
  template <StepFunction F>
  TrainingStep(F function)  // NOLINT
      : step_([function = std::move(function)](const Model& model, const AnyBatch& batch) {
          if constexpr (std::same_as<step_detail::ResultOf<F>, Loss>)
            return step_detail::call(function, model, batch);
          else
            return Loss{.mean = step_detail::call(function, model, batch)};
        }) {}
  template <OutputLoss F>
  requires(!StepFunction<F>) TrainingStep(F function)
      : TrainingStep(LossFunction(std::move(function)), ShortForm()) {}  // NOLINT

  explicit operator bool() const { return step_ != nullptr; }

  // `batch` is on the model's device.
  Loss operator()(const Model& model, const AnyBatch& batch) const { return step_(model, batch); }

 private:
  struct ShortForm {};
  TrainingStep(LossFunction loss, ShortForm);

  std::function<Loss(const Model&, const AnyBatch&)> step_;
};

// What predict() makes of a batch: [](Net& net, const Sentences& batch) -> torch::Tensor, one row a
// sample. As TrainingStep.
class Prediction {
 public:
  Prediction();  // forward() of a batch's data, or of a batch that is one tensor
  template <typename F>
  requires(step_detail::takes_module_and_batch<F>() &&
           std::same_as<step_detail::ResultOf<F>, torch::Tensor>) Prediction(F function)  // NOLINT
      : predict_([function = std::move(function)](const Model& model, const AnyBatch& batch) {
          return torch::Tensor(step_detail::call(function, model, batch));
        }) {}

  torch::Tensor operator()(const Model& model, const AnyBatch& batch) const {
    return predict_(model, batch);
  }

 private:
  std::function<torch::Tensor(const Model&, const AnyBatch&)> predict_;
};

// One of the updates that are made from every batch, one after the other: each has its own forward,
// backward, sum over the workers, and update of the parameters of its optimizer alone. A GAN has two:
// {{"critic", critic_optimizer, critic_step}, {"generator", generator_optimizer, generator_step}}.
struct Phase {
  std::string name;  // in logs, "loss_<name>", and in checkpoints
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  TrainingStep step;
};

}  // namespace cohort::train
