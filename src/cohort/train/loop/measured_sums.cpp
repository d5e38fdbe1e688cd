#include "cohort/train/loop/measured_sums.h"

#include <cmath>
#include <tuple>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {
namespace {

// How far a metric of a batch may be from that of its two halves: reduced precision rounds.
constexpr double kSumTolerance = 0.05;

// Doubles hold every value of the types that losses and metrics have.
torch::Tensor flat(const torch::Tensor& tensor) {
  return tensor.detach().reshape({-1}).to(torch::kFloat64).contiguous();
}

// Gives the numbers of one tensor after the other to `use`.
class Reading {
 public:
  explicit Reading(std::span<const double> row) : row_(row) {}

  template <typename Use>
  void next(const Measured::Numbers& numbers, Use&& use) {
    if (!numbers.here.defined()) {
      for (std::int64_t i = 0; i < numbers.count; ++i) use(row_[next_++]);
    } else if (numbers.count == 1) {
      use(numbers.here.item<double>());
    } else {
      const torch::Tensor values = flat(numbers.here);
      for (std::int64_t i = 0; i < numbers.count; ++i) use(values.data_ptr<double>()[i]);
    }
  }

 private:
  std::span<const double> row_;
  std::size_t next_ = 0;
};

torch::Tensor weight_of(const Loss& loss) {
  const auto& number = loss.weight.number();
  return number ? torch::scalar_tensor(*number, torch::kFloat64) : loss.weight.tensor();
}

}  // namespace

MeasuredSums::MeasuredSums(std::vector<Metric> metrics)
    : metrics_(std::move(metrics)), none_(metrics_), is_sum_(metrics_.size()) {}

void MeasuredSums::clear(What what, CountsIn where) {
  items_.clear();
  what_ = what;
  counts_in_ = where;
  may_wait_ = true;
}

void MeasuredSums::add(const Loss& loss, std::int64_t samples) {
  torch::NoGradGuard no_gradients;
  Item& item = items_.back();
  item.samples += static_cast<double>(samples);
  Loss measured = loss;
  measured.mean = loss.mean.detach();
  measured.output = loss.output.defined() ? loss.output.detach() : loss.output;
  if (!loss.weight.is_set()) measured.weight = samples;
  std::vector<torch::Tensor> values{measured.mean};
  auto& whole = (counts_in_ == CountsIn::each_item ? item : items_.front()).counts;
  std::size_t next_count = 0;
  for (std::size_t i = 0; i < (what_ == What::all ? metrics_.size() : 0); ++i) {
    const Metric& metric = metrics_[i];
    if (!metric.stateful) {
      expect_output_and_target(metric.name, measured);
      values.push_back(sum_of(i, measured, samples));
      values.push_back(
          torch::scalar_tensor(static_cast<double>(measured.target.size(0)), torch::kFloat64));
    } else if (torch::Tensor state = state_of(metric, measured); !metric.keeps_counts()) {
      values.push_back(std::move(state));
    } else if (const std::size_t place = next_count++; place < whole.size()) {
      whole[place].add_(state);
    } else {
      whole.push_back(state.to(torch::kInt64, /*non_blocking=*/false, /*copy=*/true));
    }
  }
  values.push_back(weight_of(measured));
  item.batches.push_back(std::move(values));
}

torch::Tensor MeasuredSums::state_of(const Metric& metric, const Loss& loss) const {
  torch::Tensor state = metric.stateful->measure(loss);
  const auto size = static_cast<std::int64_t>(metric.stateful->size());
  if (!state.defined() || state.numel() != size)
    throw InvalidInput(
        fmt::format("metric '{}' measured a tensor of shape {}, its state has {} numbers",
                    metric.name, state.defined() ? shape_text(state.sizes().vec()) : "(none)",
                    size),
        {.advice = "Return as many elements as the metric was made with."});
  if (metric.keeps_counts() && !at::isIntegralType(state.scalar_type(), /*includeBool=*/true))
    throw InvalidInput(
        fmt::format("metric '{}' keeps counts, but measured a tensor of type {}", metric.name,
                    c10::toString(state.scalar_type())),
        {.advice = "Return whole numbers (torch::kInt64), or make it with State::sums."});
  return state.reshape({-1});
}

// The metric's sum over a batch; refused where it is found to be something else.
torch::Tensor MeasuredSums::sum_of(std::size_t metric, const Loss& loss, std::int64_t samples) {
  const std::string& name = metrics_[metric].name;
  const auto sum_over = [&](const torch::Tensor& output, const torch::Tensor& target) {
    torch::Tensor sum = metrics_[metric].sum(output, target);
    if (sum.numel() == 1) return sum;
    throw InvalidInput(fmt::format("metric '{}' gave a tensor of shape {}, not one number", name,
                                   shape_text(sum.sizes().vec())),
                       {.advice = "Return the sum over the samples of the batch."});
  };
  const auto& [output, target] = std::tie(loss.output, loss.target);
  torch::Tensor sum = sum_over(output, target);
  const std::int64_t rows = target.size(0), half = rows / 2;
  if (is_sum_[metric] || !may_wait_ || half == 0 || output.size(0) != rows) return sum;
  const auto whole = sum.item<double>();
  if (whole == 0) return sum;
  const double parts = sum_over(output.slice(0, 0, half), target.slice(0, 0, half)).item<double>() +
                       sum_over(output.slice(0, half), target.slice(0, half)).item<double>();
  if (std::abs(whole - parts) > kSumTolerance * std::max(std::abs(whole), std::abs(parts)))
    throw InvalidInput(
        fmt::format("metric '{}' is no sum over samples: {} samples give {:.6g}, their two halves "
                    "{:.6g} together",
                    name, samples, whole, parts),
        {.advice = "Return the sum over the samples of the batch, not their mean; the Trainer "
                   "divides by their number."});
  is_sum_[metric] = true;
  return sum;
}

Measured MeasuredSums::take() {
  const torch::NoGradGuard no_gradients;
  Measured measured{.items = {}, .row = {}, .none = none()};
  std::vector<torch::Tensor> on_device;
  const auto numbers_of = [&](const torch::Tensor& tensor) {
    Measured::Numbers numbers{.count = tensor.numel(), .here = {}};
    if (tensor.is_cpu())
      numbers.here = tensor;
    else
      on_device.push_back(flat(tensor));
    return numbers;
  };
  for (const Item& item : std::exchange(items_, {})) {
    Measured::Item& taken = measured.items.emplace_back();
    taken.samples = item.samples;
    for (const auto& batch : item.batches) {
      auto& numbers = taken.batches.emplace_back();
      for (const torch::Tensor& tensor : batch) numbers.push_back(numbers_of(tensor));
    }
    for (const torch::Tensor& tensor : item.counts) taken.counts.push_back(numbers_of(tensor));
  }
  if (!on_device.empty()) measured.row = torch::cat(on_device);
  return measured;
}

void Measured::add_norm(const torch::Tensor& norm) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor number = flat(norm);
  row = row.defined() ? torch::cat({row, number}) : number;
  has_norm = true;
}

std::optional<double> Measured::weight() const {
  double weight = 0;
  for (const Item& item : items)
    for (const auto& batch : item.batches) {
      if (!batch.back().here.defined()) return std::nullopt;
      weight += Weight::checked(batch.back().here.item<double>());
    }
  return weight;
}

std::vector<Sums> Measured::read() const {
  const torch::Tensor here = row.defined() ? row.cpu() : torch::Tensor();
  return here.defined() ? read({here.data_ptr<double>(), static_cast<std::size_t>(here.numel())})
                        : read(std::span<const double>());
}

std::vector<Sums> Measured::read(std::span<const double> numbers) const {
  Reading reading(numbers);
  std::vector<Sums> result;
  for (const Item& item : items) {
    Sums& sums = result.emplace_back(none);
    sums.samples = item.samples;
    for (const auto& batch : item.batches) {
      std::vector<double> values;
      for (const Numbers& of_tensor : batch)
        reading.next(of_tensor, [&](double value) { values.push_back(value); });
      const double weight = Weight::checked(values.back());
      values[0] = weight > 0 ? values[0] * weight : 0;  // the mean of nothing may be NaN
      for (std::size_t i = 0; i < sums.values.size(); ++i) sums.values[i] += values[i];
      sums.weights[0] += weight;
    }
    auto count = sums.counts.begin();
    for (const Numbers& of_metric : item.counts)
      reading.next(of_metric, [&](double value) { *count++ += value; });
  }
  return result;
}

}  // namespace cohort::train
