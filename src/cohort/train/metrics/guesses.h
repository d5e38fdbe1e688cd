#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "cohort/train/model/loss.h"

// What metrics of classifiers read from a batch. Without state; nothing waits for the device.
namespace cohort::train {

// Targets of this value are passed over, as LibTorch's cross entropy does.
inline constexpr std::int64_t kIgnoredTarget = -100;

struct ClassScores {
  torch::Tensor scores;   // [rows, classes], or [rows] where there is one a target
  torch::Tensor targets;  // [rows], kInt64

  bool is_single() const { return scores.dim() == 1; }
  // The class of the largest score, or whether the one score is over the threshold.
  torch::Tensor guesses(double threshold) const;
};

// Of a batch, for the metric `name`. `classes`: as many as the metric has, two where there is one
// score a target; 0: any number. InvalidInput for what does not fit.
ClassScores class_scores(const std::string& name, const Loss& batch, std::int64_t classes = 0);

// How often each number 0 .. size - 1 is in `index`; each counts `times` (a number or a bool).
// kInt64, on the device of `index`.
torch::Tensor count_numbers(const torch::Tensor& index, const torch::Tensor& times,
                            std::int64_t size);

// Targets that are neither a class nor passed over are counted where they arise, and refused here,
// where the total is known, so that no device is waited for.
void expect_no_unknown(const std::string& name, double unknown, std::int64_t classes);

}  // namespace cohort::train
