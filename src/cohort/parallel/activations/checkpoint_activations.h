#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace cohort::parallel {

// A part of a forward pass whose intermediate results are not kept: backward computes them again
// from the inputs, for about a third more time. With one layer after the other, memory for
// activations is that of the layers' inputs and of one layer, instead of all layers'.
//
//   x = cohort::checkpoint_activations(layer, x);               // layer->forward(x)
//   x = cohort::checkpoint_activations([&](torch::Tensor x) { return head(x + y); }, x);
//
// The bits are those of layer->forward(x): the second time sees the same random numbers (dropout),
// the same autocast, and its gradients go to where the first time's would have gone, also those of
// parameters that other parts use too. One exception: the gradient of an input that is used several
// times inside and besides outside is added up in another order; put a residual's addition inside.
// What the function uses besides its inputs (parameters, other tensors that require gradients) is
// found by itself. Buffers that a module changes (batch norm) are changed once, where the module
// itself is given; a function must change nothing, or it does so twice.
//
// Without grad mode it is just the call. Works with GradientSync, gradient accumulation and
// sharding. Gradients of gradients are not possible through it.
// Threads: as the forward pass. Ownership: keeps the function, and so what it has captured by value
// (a module's holder), until backward has run or the graph is gone; what it captured by reference
// must live as long.
// Failure: what the function throws; InvalidInput where the second time gives other outputs than
// the first.
using TensorFunction = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>;
std::vector<torch::Tensor> checkpoint_activations_of(TensorFunction function,
                                                     const std::vector<torch::Tensor>& inputs,
                                                     std::vector<torch::Tensor> buffers);

namespace activations {

template <typename Layer>
concept HasForward = requires(Layer& layer) {
  layer->buffers();
};

template <typename Call, std::size_t... I>
TensorFunction of_list(Call call, std::index_sequence<I...>) {
  return [call = std::move(call)](const std::vector<torch::Tensor>& inputs) mutable {
    auto result = call(inputs[I]...);
    if constexpr (std::is_same_v<decltype(result), torch::Tensor>)
      return std::vector<torch::Tensor>{std::move(result)};
    else
      return std::vector<torch::Tensor>(std::move(result));
  };
}

}  // namespace activations

// `layer`: a module's holder or shared_ptr, whose forward() is called, or a function; of tensors,
// giving a tensor or a vector of them.
template <typename Layer, typename... Tensors>
auto checkpoint_activations(Layer layer, const Tensors&... inputs) {
  static_assert((std::is_convertible_v<const Tensors&, torch::Tensor> && ...),
                "the inputs are tensors");
  std::vector<torch::Tensor> buffers;
  const auto run = [&](auto call) {
    using Result = std::decay_t<decltype(call(torch::Tensor(inputs)...))>;
    auto outputs = checkpoint_activations_of(
        activations::of_list(std::move(call), std::index_sequence_for<Tensors...>()), {inputs...},
        std::move(buffers));
    if constexpr (std::is_same_v<Result, torch::Tensor>)
      return std::move(outputs.front());
    else
      return outputs;
  };
  if constexpr (activations::HasForward<Layer>) {
    buffers = layer->buffers();
    return run([layer](const auto&... given) mutable { return layer->forward(given...); });
  } else {
    return run(std::move(layer));
  }
}

}  // namespace cohort::parallel
