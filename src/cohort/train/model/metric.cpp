#include "cohort/train/model/metric.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::train {

Metric accuracy() {
  return {"accuracy", [](const torch::Tensor& output, const torch::Tensor& target) {
            return output.argmax(1).eq(target).sum();
          }};
}

Metric top_k_accuracy(int k) {
  if (k < 1)
    throw InvalidInput(fmt::format("top_k_accuracy: k must be at least 1, got {}", k),
                       {.advice = "Give how many of the largest outputs count."});
  return {fmt::format("top_{}_accuracy", k),
          [k](const torch::Tensor& output, const torch::Tensor& target) {
            auto best = std::get<1>(output.topk(std::min<std::int64_t>(k, output.size(1)), 1));
            return best.eq(target.unsqueeze(1)).any(1).sum();
          }};
}

void Sums::add(const Sums& other) {
  COHORT_CHECK(values.size() == other.values.size(), "sums of {} and {} metrics", values.size(),
               other.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  COHORT_CHECK(weights.size() == other.weights.size(), "sums of {} and {} losses", weights.size(),
               other.weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += other.weights[i];
  samples += other.samples;
}

void Sums::set_loss(std::size_t i, const Sums& of) {
  values[i] = of.values[0];
  weights[i] = of.weights[0];
}

void Sums::set_metrics(const Sums& of) {
  std::copy(of.values.begin() + static_cast<std::ptrdiff_t>(of.weights.size()), of.values.end(),
            values.begin() + static_cast<std::ptrdiff_t>(weights.size()));
  samples = of.samples;
}

double Sums::mean(std::size_t i) const {
  const double of = i < weights.size() ? weights[i] : samples;
  return of > 0 ? values[i] / of : 0;
}

Logs Sums::logs(const std::vector<Metric>& metrics, const std::string& prefix,
                const std::vector<std::string>& phases) const {
  Logs logs{{prefix + "loss", mean(0)}};
  for (std::size_t i = 0; i < phases.size() && i < weights.size(); ++i)
    logs[prefix + "loss_" + phases[i]] = mean(i);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    logs[prefix + metrics[i].name] = mean(weights.size() + i);
  return logs;
}

std::vector<double> Sums::row() const {
  std::vector<double> row = values;
  row.insert(row.end(), weights.begin(), weights.end());
  row.push_back(samples);
  return row;
}

void Sums::set_row(const double* numbers) {
  std::copy_n(numbers, values.size(), values.begin());
  std::copy_n(numbers + values.size(), weights.size(), weights.begin());
  samples = numbers[values.size() + weights.size()];
}

}  // namespace cohort::train
