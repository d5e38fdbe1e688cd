#pragma once

#include <torch/torch.h>

// Losses with the two arguments that a Trainer gives; each is the mean over the batch.
namespace cohort::train {

inline torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::cross_entropy_loss(output, target);
}

inline torch::Tensor mean_squared_error(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

}  // namespace cohort::train
