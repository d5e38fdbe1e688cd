#pragma once

#include <torch/torch.h>

#include <functional>

// Losses with the two arguments that a Trainer gives; each is the mean over the batch.
namespace cohort::train {

// The mean over a batch of what is to be made small.
using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

inline torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::cross_entropy_loss(output, target);
}

inline torch::Tensor mean_squared_error(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

}  // namespace cohort::train
