#include "cohort/train/loop/measured_sums.h"

#include <utility>

namespace cohort::train {
namespace {

// As doubles, which hold every value of the types that losses and metrics have.
std::vector<double> read_all(const std::vector<torch::Tensor>& scalars) {
  std::vector<double> values;
  values.reserve(scalars.size());
  std::vector<torch::Tensor> on_device;
  for (const torch::Tensor& scalar : scalars)
    if (!scalar.is_cpu()) on_device.push_back(scalar.detach().reshape({}).to(torch::kFloat64));
  torch::Tensor copied;  // in one copy, which waits for the device once
  if (!on_device.empty()) copied = torch::stack(on_device).cpu();
  std::int64_t next = 0;
  for (const torch::Tensor& scalar : scalars)
    values.push_back(scalar.is_cpu() ? scalar.item<double>() : copied.data_ptr<double>()[next++]);
  return values;
}

}  // namespace

std::vector<Sums> MeasuredSums::read() {
  const auto items = std::exchange(items_, {});
  std::vector<torch::Tensor> scalars;
  for (const auto& batches : items)
    for (const Batch& batch : batches) {
      scalars.push_back(batch.loss);
      if (batch.weight.tensor().defined()) scalars.push_back(batch.weight.tensor());
      scalars.insert(scalars.end(), batch.sums.begin(), batch.sums.end());
    }
  const std::vector<double> values = read_all(scalars);
  auto value = values.begin();
  std::vector<Sums> result;
  for (const auto& batches : items) {
    Sums& item = result.emplace_back(metrics_);
    for (const Batch& batch : batches) {
      Sums sums(metrics_);
      sums.samples = batch.samples;
      const double loss = *value++;
      sums.weights[0] = batch.weight.tensor().defined()
                            ? Weight::checked(*value++)
                            : batch.weight.number().value_or(batch.samples);
      // A mean over nothing may be no number.
      if (sums.weights[0] > 0) sums.values[0] = loss * sums.weights[0];
      for (std::size_t i = 0; i < metrics_; ++i) sums.values[i + 1] = *value++;
      item.add(sums);
    }
  }
  return result;
}

}  // namespace cohort::train
