#include "cohort/train/metrics/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

double ratio(double part, double all) { return all > 0 ? part / all : 0; }

void check_classes(const std::string& name, std::int64_t classes) {
  if (classes < 2)
    throw InvalidInput(
        fmt::format("metric '{}': classes must be at least 2, got {}", name, classes),
        {.advice = "Give the number of classes."});
}

// How many of the targets are guessed, and how many there are.
class SharedHits : public StatefulMetric {
 public:
  explicit SharedHits(std::string name) : StatefulMetric(std::move(name), State::counts, 2) {}
  Logs compute(std::span<const double> total) const override {
    return {{"", ratio(total[0], total[1])}};
  }

 protected:
  static torch::Tensor count(const torch::Tensor& hits, const torch::Tensor& targets) {
    const torch::Tensor kept = targets.ne(kIgnoredTarget);
    return torch::stack({(hits & kept).sum(), kept.sum()});
  }
};

class Accuracy final : public SharedHits {
 public:
  explicit Accuracy(double threshold) : SharedHits("accuracy"), threshold_(threshold) {}
  torch::Tensor measure(const Loss& batch) const override {
    const ClassScores scores = class_scores(name(), batch);
    return count(scores.guesses(threshold_).eq(scores.targets), scores.targets);
  }

 private:
  double threshold_;
};

class TopKAccuracy final : public SharedHits {
 public:
  explicit TopKAccuracy(int k) : SharedHits(fmt::format("top_{}_accuracy", k)), k_(k) {}
  torch::Tensor measure(const Loss& batch) const override {
    const ClassScores scores = class_scores(name(), batch);
    if (scores.is_single())
      throw InvalidInput(fmt::format("metric '{}' needs a score of every class", name()),
                         {.advice = "Give outputs [N, classes]; accuracy() takes one score."});
    const torch::Tensor best =
        std::get<1>(scores.scores.topk(std::min<std::int64_t>(k_, scores.scores.size(1)), 1));
    return count(best.eq(scores.targets.unsqueeze(1)).any(1), scores.targets);
  }

 private:
  int k_;
};

// Of each class how often it is guessed rightly, is guessed, is a target; then the targets that are
// no class.
class ClassMetric final : public StatefulMetric {
 public:
  // The value of a class, or of several together.
  using Value = double (*)(double hits, double guesses, double targets);

  ClassMetric(std::string name, const ClassMetricOptions& options, Value value)
      : StatefulMetric(
            std::move(name), State::counts,
            3 * static_cast<std::size_t>(std::max<std::int64_t>(options.classes, 0)) + 1),
        options_(options),
        value_(value) {
    check_classes(this->name(), options.classes);
    if (options.average == Average::binary && options.classes != 2)
      throw InvalidInput(fmt::format("metric '{}': Average::binary is for 2 classes, not {}",
                                     this->name(), options.classes),
                         {.advice = "Give Average::macro, micro, weighted or none."});
  }

  torch::Tensor measure(const Loss& batch) const override {
    const std::int64_t classes = options_.classes;
    const ClassScores scores = class_scores(name(), batch, classes);
    const torch::Tensor& target = scores.targets;
    const torch::Tensor guess = scores.guesses(options_.threshold);
    const torch::Tensor kept = target.ne(options_.ignored);
    const torch::Tensor valid = kept & target.ge(0) & target.lt(classes);
    const auto place = [&](const torch::Tensor& number, std::int64_t row) {
      return torch::where(valid, number + row * classes, torch::full_like(target, 3 * classes));
    };
    return count_numbers(torch::cat({place(target, 0), place(guess, 1), place(target, 2)}),
                         torch::cat({torch::where(valid, guess.eq(target), kept), valid, valid}),
                         3 * classes + 1);
  }

  Logs compute(std::span<const double> total) const override {
    const auto classes = static_cast<std::size_t>(options_.classes);
    expect_no_unknown(name(), total.back(), options_.classes);
    const auto hits = total.first(classes), guesses = total.subspan(classes, classes),
               targets = total.subspan(2 * classes, classes);
    const auto value_of = [&](std::size_t i) { return value_(hits[i], guesses[i], targets[i]); };
    if (options_.average == Average::binary) return {{"", value_of(1)}};
    Logs each;
    double all_hits = 0, all_targets = 0, all_guesses = 0, sum = 0, weights = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      each[std::to_string(i)] = value_of(i);
      all_hits += hits[i];
      all_guesses += guesses[i];
      all_targets += targets[i];
      const bool is_there = targets[i] + guesses[i] > 0;
      const double weight = options_.average == Average::weighted ? targets[i] : is_there ? 1 : 0;
      sum += weight * value_of(i);
      weights += weight;
    }
    if (options_.average == Average::none) return each;
    if (options_.average == Average::micro)
      return {{"", value_(all_hits, all_guesses, all_targets)}};
    return {{"", ratio(sum, weights)}};
  }

 private:
  ClassMetricOptions options_;
  Value value_;
};

class ConfusionMatrix final : public StatefulMetric {
 public:
  explicit ConfusionMatrix(const ConfusionMatrixOptions& options)
      : StatefulMetric("confusion", State::counts,
                       static_cast<std::size_t>(options.classes * options.classes + 1)),
        options_(options) {
    check_classes(name(), options.classes);
  }

  torch::Tensor measure(const Loss& batch) const override {
    const std::int64_t classes = options_.classes, cells = classes * classes;
    const ClassScores scores = class_scores(name(), batch, classes);
    const torch::Tensor& target = scores.targets;
    const torch::Tensor kept = target.ne(options_.ignored);
    const torch::Tensor cell = torch::where(target.ge(0) & target.lt(classes),
                                            target * classes + scores.guesses(options_.threshold),
                                            torch::full_like(target, cells));
    return count_numbers(cell, kept, cells + 1);
  }

  Logs compute(std::span<const double> total) const override {
    expect_no_unknown(name(), total.back(), options_.classes);
    Logs logs;
    if (!options_.log_cells) return logs;
    for (std::int64_t target = 0; target < options_.classes; ++target)
      for (std::int64_t guess = 0; guess < options_.classes; ++guess)
        logs[fmt::format("{}_{}", target, guess)] =
            total[static_cast<std::size_t>(target * options_.classes + guess)];
    return logs;
  }

  torch::Tensor compute_tensor(std::span<const double> total) const override {
    const std::vector<double> cells(total.begin(), total.end() - 1);
    return torch::tensor(cells, torch::kFloat64)
        .to(torch::kInt64)
        .view({options_.classes, options_.classes});
  }

 private:
  ConfusionMatrixOptions options_;
};

}  // namespace

Metric accuracy(double threshold) { return std::make_shared<Accuracy>(threshold); }

Metric top_k_accuracy(int k) {
  if (k < 1)
    throw InvalidInput(fmt::format("top_k_accuracy: k must be at least 1, got {}", k),
                       {.advice = "Give how many of the largest outputs count."});
  return std::make_shared<TopKAccuracy>(k);
}

Metric f1_score(const ClassMetricOptions& options) {
  return std::make_shared<ClassMetric>("f1", options,
                                       [](double hits, double guesses, double targets) {
                                         return ratio(2 * hits, guesses + targets);
                                       });
}

Metric precision_score(const ClassMetricOptions& options) {
  return std::make_shared<ClassMetric>(
      "precision", options,
      [](double hits, double guesses, double) { return ratio(hits, guesses); });
}

Metric recall_score(const ClassMetricOptions& options) {
  return std::make_shared<ClassMetric>(
      "recall", options, [](double hits, double, double targets) { return ratio(hits, targets); });
}

Metric confusion_matrix(const ConfusionMatrixOptions& options) {
  return std::make_shared<ConfusionMatrix>(options);
}

}  // namespace cohort::train
