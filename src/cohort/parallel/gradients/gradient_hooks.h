#pragma once

#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

namespace cohort::parallel {

// Calls back when autograd has written a leaf tensor's .grad. Holds the tensors' accumulators, to
// which the calls are tied; removes them when destroyed. Calls come from the thread that runs the
// tensor's part of backward: the caller of backward() on the CPU, one thread a device otherwise.
// What a callback throws, backward() throws.
class GradientHooks {
 public:
  GradientHooks() = default;
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  void add(const torch::Tensor& leaf, std::function<void()> callback);

 private:
  // A shared_ptr or, in newer versions of LibTorch, an intrusive_ptr to a Node.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  struct Hook {
    Accumulator accumulator;
    std::uintptr_t key = 0;
  };
  std::vector<Hook> hooks_;
};

}  // namespace cohort::parallel
