#include "cohort/train/metrics/means.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {
namespace {

// Sum and weight of a mean, and what is made of it.
class MeanMetric : public StatefulMetric {
 public:
  using Use = double (*)(double mean);
  MeanMetric(std::string name, Use use)
      : StatefulMetric(std::move(name), State::sums, 2), use_(use) {}
  Logs compute(std::span<const double> total) const override {
    return {{"", total[1] > 0 ? use_(total[0] / total[1]) : 0}};
  }

 private:
  Use use_;
};

// Of the loss, or of one of its further values.
class WeightedMean final : public MeanMetric {
 public:
  WeightedMean(std::string name, std::string value, Use use)
      : MeanMetric(std::move(name), use), value_(std::move(value)) {}

  torch::Tensor measure(const Loss& batch) const override {
    const torch::Tensor mean = mean_in(batch).detach().reshape({}).to(torch::kFloat64);
    const auto& number = batch.weight.number();
    const torch::Tensor weight = number ? torch::full_like(mean, *number)
                                        : batch.weight.tensor().to(mean.device(), torch::kFloat64);
    // The mean over nothing may be NaN.
    return torch::stack(
        {torch::where(weight.gt(0), mean * weight, torch::zeros_like(mean)), weight});
  }

 private:
  const torch::Tensor& mean_in(const Loss& batch) const {
    if (value_.empty()) return batch.mean;
    const auto found = batch.values.find(value_);
    if (found != batch.values.end() && found->second.defined() && found->second.numel() == 1)
      return found->second;
    std::vector<std::string> names;
    for (const auto& [other, tensor] : batch.values) names.push_back(other);
    if (found != batch.values.end())
      throw InvalidInput(
          fmt::format("metric '{}': Loss::values[\"{}\"] is not one number", name(), value_),
          {.advice = "Give the mean over the batch, a tensor of one element."});
    throw InvalidInput(
        fmt::format("metric '{}': the training step gives no value '{}'; it gives {}", name(),
                    value_, names.empty() ? "none" : join(names, ", ")),
        {.advice = "Set Loss::values in the step, or measure one of those."});
  }

  std::string value_;
};

class ErrorMetric final : public MeanMetric {
 public:
  using Distance = torch::Tensor (*)(const torch::Tensor& difference);
  ErrorMetric(std::string name, Distance distance, Use use)
      : MeanMetric(std::move(name), use), distance_(distance) {}

  torch::Tensor measure(const Loss& batch) const override {
    const torch::Tensor &output = batch.output, &target = batch.target;
    expect_output_and_target(name(), batch);
    if (output.numel() != target.numel())
      throw InvalidInput(
          fmt::format("metric '{}' cannot compare an output of shape {} with a "
                      "target of shape {}",
                      name(), shape_text(output.sizes().vec()), shape_text(target.sizes().vec())),
          {.advice = "Give as many outputs as targets."});
    const torch::Tensor difference = output.detach().reshape({-1}).to(torch::kFloat64) -
                                     target.reshape({-1}).to(torch::kFloat64);
    const torch::Tensor sum = distance_(difference).sum();
    return torch::stack({sum, torch::full_like(sum, static_cast<double>(target.numel()))});
  }

 private:
  Distance distance_;
};

double itself(double mean) { return mean; }
torch::Tensor squared(const torch::Tensor& difference) { return difference.square(); }

}  // namespace

Metric perplexity(const std::string& value) {
  // Finite, as logs travel as JSON.
  return std::make_shared<WeightedMean>(
      value.empty() ? "perplexity" : "perplexity_" + value, value,
      [](double mean) { return std::min(std::exp(mean), std::numeric_limits<double>::max()); });
}

Metric mean_of(const std::string& value) {
  if (value.empty())
    throw InvalidInput(
        "mean_of: the name is empty",
        {.advice = "Give a name of Loss::values; the loss itself is logged anyway."});
  return std::make_shared<WeightedMean>(value, value, itself);
}

Metric absolute_error() {
  return std::make_shared<ErrorMetric>(
      "mae", [](const torch::Tensor& difference) { return difference.abs(); }, itself);
}

Metric squared_error() { return std::make_shared<ErrorMetric>("mse", squared, itself); }

Metric root_squared_error() {
  return std::make_shared<ErrorMetric>("rmse", squared,
                                       [](double mean) { return std::sqrt(mean); });
}

}  // namespace cohort::train
