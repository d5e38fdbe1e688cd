#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/train/checkpoint/safetensors.h"

namespace cohort::train {

// A moving average of the weights, w = decay * w + (1 - decay) * weights after every update, which
// is often better than the last of them.
struct EmaOptions {
  double decay = 0;   // 0.999, say; 0: no average is kept
  bool ramp = false;  // min(decay, (1 + n) / (10 + n)) at update n, so that the start is forgotten
  bool evaluate = true;  // validation, evaluate() and predict() have the averaged weights
};

// The average of a module's floating-point parameters, of which each replica keeps one: updates have
// the same bits everywhere, so the averages have. Buffers stay the model's. Reduced precision is
// averaged in f32.
// Thread-compatible. `module` must outlive it.
class WeightAverage {
 public:
  // InvalidInput for a decay that is not 0 <= decay < 1.
  WeightAverage(const torch::nn::Module& module, EmaOptions options);

  bool is_kept() const { return options_.decay > 0; }
  std::int64_t updates() const { return updates_; }
  // The parameters were updated. The first time they are taken as they are.
  void update();

  // While it lives, the module has the averaged weights, where evaluations are to have them and
  // there are some; then its own again. Costs a copy of them.
  class Scope {
   public:
    explicit Scope(WeightAverage& average);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage& average_;
    std::vector<torch::Tensor> own_;
  };
  // The module's weights become the averaged ones, for good. InvalidInput before the first update.
  void apply() const;

  // The averages by the parameters' names, sharing memory; none before the first update.
  TensorMap tensors() const;
  // Where there were so many updates the averages are to be filled: with tensors() of another, or by
  // a broadcast into these. `updates` 0: as at the beginning.
  void set_updates(std::int64_t updates);
  // InvalidInput, with nothing changed, for what is not of this module.
  void restore(const TensorMap& tensors);

 private:
  struct Averaged {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor average;  // undefined before the first update
  };
  void copy_to_module() const;

  EmaOptions options_;
  std::vector<Averaged> parameters_;
  std::int64_t updates_ = 0;
};

}  // namespace cohort::train
