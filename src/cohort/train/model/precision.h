#pragma once

#include <torch/torch.h>

#include <string>

#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::train {

// f32: as the model is. bf16: LibTorch's autocast, weights and sums stay f32. f16: the same for
// GPUs, with the loss scaled so that small gradients survive.
enum class Precision { f32, bf16, f16 };

// By their names, for flags; throw InvalidInput.
Precision parse_precision(const std::string& text);
parallel::Compression parse_compression(const std::string& text);

// While it lives, LibTorch's autocast is on for `device` on this thread (f32: nothing happens).
class AutocastScope {
 public:
  AutocastScope(Precision precision, torch::Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  torch::DeviceType device_;
};

// Keeps small f16 gradients from vanishing: the loss is multiplied by scale() before backward, the
// reduced gradients are divided by it. A step whose gradients are not finite is left out and the
// scale halved; after 2000 good steps it doubles. For other precisions the scale is 1 for ever.
// All replicas see the same reduced gradients, so all decide alike. Thread-compatible.
class LossScale {
 public:
  explicit LossScale(Precision precision);

  double scale() const { return scale_; }
  // Divides the gradients. False: this step must not be applied.
  bool unscale(const parallel::NamedTensors& parameters);

  int good_steps() const { return good_steps_; }
  void restore(double scale, int good_steps);

 private:
  bool active_;
  double scale_;
  int good_steps_ = 0;
};

}  // namespace cohort::train
