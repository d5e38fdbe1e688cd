#include "cohort/train/metrics/roc_auc.h"

#include <fmt/format.h>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

// Of each class (only of class 1, of two): targets that are not it by bin, targets that are it by
// bin; then the targets that are no class.
class RocAuc final : public StatefulMetric {
 public:
  explicit RocAuc(const AucOptions& options)
      : StatefulMetric("auc", State::counts,
                       static_cast<std::size_t>(curves(options) * 2 * options.bins + 1)),
        options_(options) {}

  torch::Tensor measure(const Loss& batch) const override {
    const ClassScores scores = class_scores(name(), batch, options_.classes);
    const std::int64_t bins = options_.bins, all = curves(options_) * 2 * bins;
    const torch::Tensor bin = torch::nan_to_num(probabilities(scores), 0)
                                  .mul(bins)
                                  .floor()
                                  .clamp(0, bins - 1)
                                  .to(torch::kInt64);  // [rows, curves]
    const torch::Tensor target = scores.targets.unsqueeze(1);
    const auto number = torch::arange(curves(options_), target.options());
    const torch::Tensor is_class = options_.classes == 2 ? target.eq(1) : target.eq(number);
    const torch::Tensor place = (number * 2 + is_class.to(torch::kInt64)) * bins + bin;
    const torch::Tensor kept = target.ne(options_.ignored);
    const torch::Tensor valid = kept & target.ge(0) & target.lt(options_.classes);
    const torch::Tensor times = torch::where(valid, valid, kept).expand_as(place);
    return count_numbers(torch::where(valid, place, torch::full_like(place, all)).reshape({-1}),
                         times.reshape({-1}), all + 1);
  }

  Logs compute(std::span<const double> total) const override {
    expect_no_unknown(name(), total.back() / static_cast<double>(curves(options_)),
                      options_.classes);
    const auto bins = static_cast<std::size_t>(options_.bins);
    double sum = 0, with_curve = 0;
    for (std::int64_t curve = 0; curve < curves(options_); ++curve) {
      const auto first = static_cast<std::size_t>(curve) * 2 * bins;
      const auto others = total.subspan(first, bins), own = total.subspan(first + bins, bins);
      double own_above = 0, others_above = 0, pairs = 0;
      for (std::size_t bin = bins; bin-- > 0;) {
        pairs += others[bin] * (own_above + own[bin] / 2);
        own_above += own[bin];
        others_above += others[bin];
      }
      if (own_above == 0 || others_above == 0) continue;
      sum += pairs / (own_above * others_above);
      ++with_curve;
    }
    return {{"", with_curve > 0 ? sum / with_curve : 0}};
  }

 private:
  static std::int64_t curves(const AucOptions& options) {
    return options.classes == 2 ? 1 : options.classes;
  }

  torch::Tensor probabilities(const ClassScores& scores) const {
    const torch::Tensor values = scores.scores.to(torch::kFloat32);
    if (scores.is_single()) return (options_.logits ? torch::sigmoid(values) : values).unsqueeze(1);
    const torch::Tensor shares = options_.logits ? torch::softmax(values, 1) : values;
    return options_.classes == 2 ? shares.slice(1, 1, 2) : shares;
  }

  AucOptions options_;
};

}  // namespace

Metric roc_auc(const AucOptions& options) {
  if (options.classes < 2)
    throw InvalidInput(fmt::format("roc_auc: classes must be at least 2, got {}", options.classes),
                       {.advice = "Give the number of classes."});
  if (options.bins < 2)
    throw InvalidInput(fmt::format("roc_auc: bins must be at least 2, got {}", options.bins),
                       {.advice = "Give the resolution: 1000 tells 0.001 apart."});
  return std::make_shared<RocAuc>(options);
}

}  // namespace cohort::train
