#include "cohort/train/model/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

constexpr double kFirstScale = 65536;
constexpr int kStepsToDouble = 2000;

void set_autocast(torch::DeviceType device, bool on) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
  at::autocast::set_autocast_enabled(device, on);
#else
  device == torch::kCUDA ? at::autocast::set_enabled(on) : at::autocast::set_cpu_enabled(on);
#endif
}

void set_autocast_type(torch::DeviceType device, torch::Dtype type) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
  at::autocast::set_autocast_dtype(device, type);
#else
  device == torch::kCUDA ? at::autocast::set_autocast_gpu_dtype(type)
                         : at::autocast::set_autocast_cpu_dtype(type);
#endif
}

}  // namespace

Precision parse_precision(const std::string& text) {
  if (text == "f32") return Precision::f32;
  if (text == "bf16") return Precision::bf16;
  if (text == "f16") return Precision::f16;
  throw InvalidInput(fmt::format("'{}' is not a precision", text),
                     {.advice = "Give f32, bf16 or f16."});
}

parallel::Compression parse_compression(const std::string& text) {
  if (text == "none") return parallel::Compression::none;
  if (text == "f16") return parallel::Compression::f16;
  if (text == "bf16") return parallel::Compression::bf16;
  throw InvalidInput(fmt::format("'{}' is not a compression", text),
                     {.advice = "Give none, f16 or bf16."});
}

AutocastScope::AutocastScope(Precision precision, torch::Device device)
    : on_(precision != Precision::f32), device_(device.type()) {
  if (!on_) return;
  set_autocast_type(device_, precision == Precision::bf16 ? torch::kBFloat16 : torch::kHalf);
  set_autocast(device_, true);
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  set_autocast(device_, false);
  at::autocast::clear_cache();
}

LossScale::LossScale(Precision precision)
    : active_(precision == Precision::f16), scale_(active_ ? kFirstScale : 1) {}

bool LossScale::unscale(const parallel::NamedTensors& parameters) {
  if (!active_) return true;
  torch::NoGradGuard no_gradients;
  bool finite = true;
  for (const auto& [name, parameter] : parameters) {
    auto gradient = parameter.grad();
    if (!gradient.defined()) continue;
    gradient.mul_(1 / scale_);
    finite = finite && gradient.isfinite().all().item<bool>();
  }
  if (!finite) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == kStepsToDouble) {
    scale_ *= 2;
    good_steps_ = 0;
  }
  return finite;
}

void LossScale::restore(double scale, int good_steps) {
  if (!active_) return;
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace cohort::train
