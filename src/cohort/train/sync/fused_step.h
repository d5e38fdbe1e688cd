#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cohort::train {

// optimizer.step() by LibTorch's fused operations: one kernel for all parameters of a group, where
// the optimizer's own step starts several for each parameter. For SGD (without dampening), Adam and
// AdamW (without amsgrad) of torch::optim with all parameters on one device, each with a gradient that
// lies as the parameter does. The state, its names and its counts of steps are the optimizer's own,
// so the two may take turns. Rounding differs from the optimizer's own step in the last bits.
//
// The rate and the count of steps that kernels read lie on the device, so the kernels may be recorded
// into a CUDA graph and replayed while both change: prepare() before, count() after each replay.
//
// Threads: confined to the replica's. `optimizer` must outlive it. Failure: what LibTorch throws.
class FusedStep {
 public:
  explicit FusedStep(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  // Whether the fused operations can do the step that is due, with the gradients that are there.
  bool applies();

  // The step: the host's numbers to the device; the kernels alone; the optimizer's own count.
  void step();
  void prepare();
  void enqueue();
  void count();

  // What a recorded step has as constants: it is good while these are the same; and where parameters
  // and state lie, after applies(), as one number.
  std::vector<double> constants() const;
  double addresses() const;

 private:
  enum class Rule { none, sgd, adam, adamw };
  struct Group {
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> first, second;  // state: momentum; the two averages
    torch::Tensor rate, steps;                 // f32, on the device
    std::optional<double> rate_there;          // what `rate` holds
    std::int64_t steps_there = -1;             // what `steps` holds
    std::int64_t count = 0;                    // the optimizer's
  };
  Rule rule() const;
  bool collect();
  bool collect(const torch::optim::OptimizerParamGroup& given, Group& group);

  torch::optim::Optimizer& optimizer_;
  std::vector<Group> groups_;
};

}  // namespace cohort::train
