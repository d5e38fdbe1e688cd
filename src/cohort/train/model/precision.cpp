#include "cohort/train/model/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/model/optimizer_parameters.h"

namespace cohort::train {
namespace {

bool autocast_is_on(torch::DeviceType device) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
  return at::autocast::is_autocast_enabled(device);
#else
  return device == torch::kCUDA ? at::autocast::is_enabled() : at::autocast::is_cpu_enabled();
#endif
}

torch::Dtype autocast_type(torch::DeviceType device) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
  return at::autocast::get_autocast_dtype(device);
#else
  return device == torch::kCUDA ? at::autocast::get_autocast_gpu_dtype()
                                : at::autocast::get_autocast_cpu_dtype();
#endif
}

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
  throw InvalidInput(fmt::format("precision must be f32, bf16 or f16, got '{}'", text));
}

parallel::Compression parse_compression(const std::string& text) {
  if (text == "none") return parallel::Compression::none;
  if (text == "f16") return parallel::Compression::f16;
  if (text == "bf16") return parallel::Compression::bf16;
  throw InvalidInput(fmt::format("compression must be none, f16 or bf16, got '{}'", text));
}

Autocast::Autocast(Precision precision, torch::Device device)
    : device_(device.type()),
      was_on_(autocast_is_on(device_)),
      type_before_(autocast_type(device_)) {
  if (precision != Precision::f32)
    set_autocast_type(device_, precision == Precision::bf16 ? torch::kBFloat16 : torch::kHalf);
  set_autocast(device_, precision != Precision::f32);
}

Autocast::~Autocast() {
  set_autocast(device_, was_on_);
  set_autocast_type(device_, type_before_);
  if (!was_on_) at::autocast::clear_cache();
}

LossScale::LossScale(Precision precision, LossScaleOptions options)
    : active_(precision == Precision::f16),
      options_(options),
      scale_(active_ ? options.initial_scale : 1) {
  if (!(options.initial_scale > 0) || options.growth_interval < 1)
    throw InvalidInput(
        fmt::format("loss scale: initial_scale must be positive and growth_interval at least 1, "
                    "got {} and {}",
                    options.initial_scale, options.growth_interval));
}

bool LossScale::divide(std::span<const torch::Tensor> parameters) const {
  if (!active_) return true;
  const torch::NoGradGuard no_gradients;
  std::map<std::string, std::vector<torch::Tensor>> finite;  // by device: one wait for each
  for (const torch::Tensor& parameter : parameters) {
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    gradient.mul_(1 / scale_);
    finite[gradient.device().str()].push_back(gradient.isfinite().all());
  }
  return std::all_of(finite.begin(), finite.end(), [](const auto& of_device) {
    return torch::stack(of_device.second).all().template item<bool>();
  });
}

void LossScale::update(bool finite) {
  if (!active_) return;
  if (!finite) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ *= 2;
    good_steps_ = 0;
  }
}

bool LossScale::unscale(const parallel::NamedTensors& parameters) {
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  const bool finite = divide(tensors);
  update(finite);
  return finite;
}

void LossScale::restore(double scale, int good_steps) {
  if (!active_) return;
  scale_ = scale;
  good_steps_ = good_steps;
}

GradScaler::Unscaled* GradScaler::find(const torch::optim::Optimizer& optimizer) {
  for (Unscaled& entry : unscaled_)
    if (entry.optimizer == &optimizer) return &entry;
  return nullptr;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (find(optimizer) != nullptr)
    throw InvalidInput("GradScaler: the gradients of this optimizer are divided already",
                       {.advice = "Call unscale_() once a step, and update() after the step."});
  unscaled_.push_back({&optimizer, scale_.divide(parameters_of(optimizer)), false});
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (find(optimizer) == nullptr) unscale_(optimizer);
  Unscaled& entry = *find(optimizer);
  if (std::exchange(entry.stepped, true))
    throw InvalidInput("GradScaler: step() twice for one optimizer",
                       {.advice = "Call update() after the step."});
  if (entry.finite) optimizer.step();
  return entry.finite;
}

void GradScaler::update() {
  scale_.update(std::all_of(unscaled_.begin(), unscaled_.end(),
                            [](const Unscaled& entry) { return entry.finite; }));
  unscaled_.clear();
}

nlohmann::json GradScaler::state() const {
  return {{"loss_scale", scale_.scale()}, {"good_steps", scale_.good_steps()}};
}

void GradScaler::set_state(const nlohmann::json& state) {
  scale_.restore(state.at("loss_scale").get<double>(), state.at("good_steps").get<int>());
}

}  // namespace cohort::train
