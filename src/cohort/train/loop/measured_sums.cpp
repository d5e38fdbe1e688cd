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

void MeasuredSums::add(double samples, const torch::Tensor& loss, std::vector<torch::Tensor> sums) {
  sums.insert(sums.begin(), loss);
  items_.back().push_back({samples, std::move(sums)});
}

std::vector<Sums> MeasuredSums::read() {
  const auto items = std::exchange(items_, {});
  std::vector<torch::Tensor> scalars;
  for (const auto& batches : items)
    for (const BatchValues& batch : batches)
      scalars.insert(scalars.end(), batch.values.begin(), batch.values.end());
  const std::vector<double> values = read_all(scalars);
  auto value = values.begin();
  std::vector<Sums> result;
  for (const auto& batches : items) {
    Sums& item = result.emplace_back(metrics_);
    for (const BatchValues& batch : batches) {
      Sums sums(metrics_);
      sums.samples = batch.samples;
      for (double& sum : sums.values) sum = *value++;
      sums.values[0] *= sums.samples;
      item.add(sums);
    }
  }
  return result;
}

}  // namespace cohort::train
