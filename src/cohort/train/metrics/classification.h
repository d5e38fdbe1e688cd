#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "cohort/train/metrics/guesses.h"
#include "cohort/train/model/metric.h"

// Metrics of classifiers. Outputs are scores of classes, of which the largest is the guess: [..., C]
// with targets [...] of class numbers, or [N, C, ...] with targets [N, ...] as cross entropy takes
// them. Where there are two classes also one score a target, of which those over a threshold guess
// class 1. All are counts: exact, and the same at any number of workers.
//
// Failure: InvalidInput for options that cannot be, for shapes that do not fit, and, at the end of
// the step or the evaluation, for targets that are no class.
namespace cohort::train {

// The share of targets that are guessed.
Metric accuracy(double threshold = 0);
// The share of targets that are among the k largest outputs: "top_5_accuracy".
Metric top_k_accuracy(int k);

// How the values of several classes become one. binary: of class 1, of two. micro: of all guesses
// together. macro: the mean over the classes that are a target or a guess. weighted: the same, each
// with the number of its targets. none: each class by its own name, "f1_0", "f1_1", ...
enum class Average { binary, micro, macro, weighted, none };

struct ClassMetricOptions {
  std::int64_t classes = 2;
  Average average = Average::binary;
  // Of one score a target: over this it is class 1. 0 is the half of a logit; for probabilities 0.5.
  double threshold = 0;
  std::int64_t ignored = kIgnoredTarget;
};

// As scikit-learn's f1_score, precision_score and recall_score with zero_division 0, called "f1",
// "precision" and "recall".
Metric f1_score(const ClassMetricOptions& options = {});
Metric precision_score(const ClassMetricOptions& options = {});
Metric recall_score(const ClassMetricOptions& options = {});

struct ConfusionMatrixOptions {
  std::int64_t classes = 2;
  double threshold = 0;
  std::int64_t ignored = kIgnoredTarget;
  // Every cell is a log value, "confusion_T_P" for target T and guess P.
  bool log_cells = false;
};

// How often each class (row: the target) was guessed as each (column): a tensor [classes, classes]
// of kInt64 by the name "confusion", in FitState::tensors and Trainer::metric_tensors().
Metric confusion_matrix(const ConfusionMatrixOptions& options);

}  // namespace cohort::train
