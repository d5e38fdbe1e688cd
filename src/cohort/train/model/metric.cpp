#include "cohort/train/model/metric.h"

#include <fmt/format.h>

#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {

StatefulMetric::StatefulMetric(std::string name, State state, std::size_t size)
    : name_(std::move(name)), state_(state), size_(size) {
  if (size == 0)
    throw InvalidInput(fmt::format("metric '{}' has a state of 0 numbers", name_),
                       {.advice = "Give how many numbers measure() returns."});
}

void expect_output_and_target(const std::string& metric, const Loss& batch) {
  if (batch.output.defined() && batch.target.defined()) return;
  throw InvalidInput(fmt::format("metric '{}' measures the output and the target, and the training "
                                 "step gives {}",
                                 metric, batch.output.defined() ? "no target" : "no output"),
                     {.advice = "Set Loss::output and Loss::target."});
}

Metric::Metric(std::shared_ptr<const StatefulMetric> metric) : stateful(std::move(metric)) {
  if (!stateful)
    throw InvalidInput("a metric is null", {.advice = "Give std::make_shared<YourMetric>()."});
  name = stateful->name();
}

std::string Metric::log_name(const std::string& suffix) const {
  return suffix.empty() ? name : name + "_" + suffix;
}

std::vector<std::string> Metric::log_names() const {
  if (!stateful) return {name};
  std::vector<std::string> names;
  for (const auto& [suffix, value] : stateful->compute(std::vector<double>(stateful->size())))
    names.push_back(log_name(suffix));
  return names;
}

}  // namespace cohort::train
