#pragma once

#include <torch/torch.h>

#include <functional>

#include "cohort/train/model/loss.h"

// Losses with the two arguments that a Trainer's short form gives, each the mean over the batch; and
// losses for training steps, each with its weight.
namespace cohort::train {

// The mean over a batch of what is to be made small.
using LossFunction =
    std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

inline torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::cross_entropy_loss(output, target);
}

inline torch::Tensor mean_squared_error(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

// The mean of `each` over the places where `mask` (of the same shape; true, or a weight of each) is
// set, with the sum of the mask as its weight. Where nothing is set both are 0.
Loss masked_mean(const torch::Tensor& each, const torch::Tensor& mask);

// Cross-entropy of logits [..., classes] and targets [...], over the targets that are not `ignored`;
// the weight is their number. Output and target are those given.
Loss token_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                         std::int64_t ignored = -100);

}  // namespace cohort::train
