#include "cohort/train/model/metric.h"

#include "cohort/base/error.h"

namespace cohort::train {

Metric accuracy() {
  return {"accuracy", [](const torch::Tensor& output, const torch::Tensor& target) {
            return output.argmax(1).eq(target).sum();
          }};
}

Metric top_k_accuracy(int k) {
  if (k < 1)
    throw InvalidInput(fmt::format("top_k_accuracy({}) counts nothing", k),
                       {.advice = "Give a k from 1 on."});
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
  samples += other.samples;
}

Logs Sums::logs(const std::vector<Metric>& metrics, const std::string& prefix) const {
  Logs logs{{prefix + "loss", mean(0)}};
  for (std::size_t i = 0; i < metrics.size(); ++i) logs[prefix + metrics[i].name] = mean(i + 1);
  return logs;
}

}  // namespace cohort::train
