#include "cohort/train/model/sums.h"

#include <algorithm>
#include <span>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

constexpr std::size_t kSumAndSamples = 2;  // of a metric without a state of its own

std::size_t state_size(const Metric& metric) {
  return metric.stateful ? metric.stateful->size() : kSumAndSamples;
}

// Calls `use` with each metric and its part of the sums.
template <typename Use>
void visit_metrics(const std::vector<Metric>& metrics, const Sums& sums, Use&& use) {
  std::span<const double> values = std::span(sums.values).subspan(sums.weights.size());
  std::span<const double> counts = sums.counts;
  for (const Metric& metric : metrics) {
    std::span<const double>& from = metric.keeps_counts() ? counts : values;
    use(metric, from.first(state_size(metric)));
    from = from.subspan(state_size(metric));
  }
}

void add_numbers(std::vector<double>& to, const std::vector<double>& more) {
  COHORT_CHECK(to.size() == more.size(), "sums of {} and {} numbers", to.size(), more.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

Sums::Sums(const std::vector<Metric>& metrics, std::size_t losses) : weights(losses) {
  std::size_t of_metrics = 0, whole = 0;
  for (const Metric& metric : metrics)
    (metric.keeps_counts() ? whole : of_metrics) += state_size(metric);
  values.resize(losses + of_metrics);
  counts.resize(whole);
}

void Sums::add(const Sums& other) {
  add_numbers(values, other.values);
  add_numbers(weights, other.weights);
  add_numbers(counts, other.counts);
  samples += other.samples;
}

void Sums::set_loss(std::size_t i, const Sums& of) {
  values[i] = of.values[0];
  weights[i] = of.weights[0];
}

void Sums::set_metrics(const Sums& of) {
  std::copy(of.values.begin() + static_cast<std::ptrdiff_t>(of.weights.size()), of.values.end(),
            values.begin() + static_cast<std::ptrdiff_t>(weights.size()));
  counts = of.counts;
  samples = of.samples;
}

Sums Sums::none() const {
  Sums none = *this;
  none.set_row(std::vector<double>(width()).data());
  return none;
}

bool Sums::has_shape_of(const Sums& other) const {
  return values.size() == other.values.size() && weights.size() == other.weights.size() &&
         counts.size() == other.counts.size();
}

Logs Sums::logs(const std::vector<Metric>& metrics, const std::string& prefix,
                const std::vector<std::string>& phases) const {
  Logs logs{{prefix + "loss", loss()}};
  for (std::size_t i = 0; i < phases.size() && i < weights.size(); ++i)
    logs[prefix + "loss_" + phases[i]] = loss(i);
  visit_metrics(metrics, *this, [&](const Metric& metric, std::span<const double> total) {
    if (!metric.stateful)
      logs[prefix + metric.name] = total[1] > 0 ? total[0] / total[1] : 0;
    else
      for (const auto& [suffix, value] : metric.stateful->compute(total))
        logs[prefix + metric.log_name(suffix)] = value;
  });
  return logs;
}

std::map<std::string, torch::Tensor> Sums::tensors(const std::vector<Metric>& metrics,
                                                   const std::string& prefix) const {
  std::map<std::string, torch::Tensor> tensors;
  visit_metrics(metrics, *this, [&](const Metric& metric, std::span<const double> total) {
    if (!metric.stateful) return;
    if (torch::Tensor tensor = metric.stateful->compute_tensor(total); tensor.defined())
      tensors.emplace(prefix + metric.name, std::move(tensor));
  });
  return tensors;
}

std::vector<double> Sums::row() const {
  std::vector<double> row = values;
  row.insert(row.end(), weights.begin(), weights.end());
  row.push_back(samples);
  row.insert(row.end(), counts.begin(), counts.end());
  return row;
}

void Sums::set_row(const double* numbers) {
  const auto take = [&](std::vector<double>& to) {
    std::copy_n(numbers, to.size(), to.begin());
    numbers += to.size();
  };
  take(values);
  take(weights);
  samples = *numbers++;
  take(counts);
}

}  // namespace cohort::train
