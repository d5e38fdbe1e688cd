#pragma once

#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::train {

// f32: as the model is. bf16: LibTorch's autocast, weights and sums stay f32. f16: the same for
// GPUs, with the loss scaled so that small gradients survive.
enum class Precision { f32, bf16, f16 };

// By their names, for flags; throw InvalidInput.
Precision parse_precision(const std::string& text);
parallel::Compression parse_compression(const std::string& text);

// While it lives, LibTorch's autocast is on for `device` on this thread, or off (f32). Scopes nest.
//
//   const cohort::Autocast autocast(cohort::Precision::bf16, device);
//   loss = criterion(net(batch.data), batch.target);   // backward() stands outside
class Autocast {
 public:
  Autocast(Precision precision, torch::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool was_on_;
  torch::Dtype type_before_;
};

struct LossScaleOptions {
  double initial_scale = 65536;
  int growth_interval = 2000;  // good steps, after which the scale doubles
};

// Keeps small f16 gradients from vanishing: the loss is multiplied by scale() before backward, the
// reduced gradients are divided by it. A step whose gradients are not finite is left out and the
// scale halved; after 2000 good steps it doubles. For other precisions the scale is 1 for ever.
// All replicas see the same reduced gradients, so all decide alike. Thread-compatible.
class LossScale {
 public:
  explicit LossScale(Precision precision, LossScaleOptions options = {});

  bool is_active() const { return active_; }
  double scale() const { return scale_; }
  // divide(), then update().
  bool unscale(const parallel::NamedTensors& parameters);
  // Divides the gradients. False: some are not finite, and this step must not be applied.
  bool divide(std::span<const torch::Tensor> parameters) const;
  // A step is over, in which all gradients were finite or not.
  void update(bool finite);

  int good_steps() const { return good_steps_; }
  void restore(double scale, int good_steps);

 private:
  bool active_;
  LossScaleOptions options_;
  double scale_;
  int good_steps_ = 0;
};

// The same for a loop of one's own, as PyTorch's class of this name:
//
//   cohort::GradScaler scaler(cohort::Precision::f16);
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);   // only where gradients are looked at or clipped
//   scaler.step(optimizer);       // unless gradients are not finite
//   scaler.update();
//
// All ranks decide alike without asking each other, since gradients that DistributedDataParallel or
// DistributedOptimizer have averaged are the same on all: a value that is not finite on one rank is
// so in the average. Give it to Checkpoints::register_state(). For precisions other than f16 it does
// nothing but step. Thread-compatible.
// Failure: InvalidInput for unscale_() twice in a step, and for a step() that is repeated before
// update().
class GradScaler {
 public:
  explicit GradScaler(Precision precision, LossScaleOptions options = {})
      : scale_(precision, options) {}

  torch::Tensor scale(const torch::Tensor& loss) const {
    return scale_.scale() == 1 ? loss : loss * scale_.scale();
  }
  double get_scale() const { return scale_.scale(); }
  void unscale_(torch::optim::Optimizer& optimizer);
  // unscale_() where that was not done, then the optimizer's step. False: it was left out.
  bool step(torch::optim::Optimizer& optimizer);
  // After the step of every optimizer: halves the scale where gradients were not finite.
  void update();

  nlohmann::json state() const;
  void set_state(const nlohmann::json& state);

 private:
  struct Unscaled {
    const torch::optim::Optimizer* optimizer;
    bool finite;
    bool stepped;
  };
  Unscaled* find(const torch::optim::Optimizer& optimizer);

  LossScale scale_;
  std::vector<Unscaled> unscaled_;  // since update()
};

}  // namespace cohort::train
