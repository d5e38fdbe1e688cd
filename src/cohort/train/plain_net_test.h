#pragma once

#include <torch/torch.h>

namespace cohort::train::testing {

// Batch norm, and nothing random: the threads of a process share LibTorch's generator.
struct PlainNetImpl : torch::nn::Cloneable<PlainNetImpl> {
  PlainNetImpl() { reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    head = register_module("head", torch::nn::Linear(4 * 4 * 4, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head(torch::max_pool2d(torch::relu(norm(conv(x))), 2).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(PlainNet);

}  // namespace cohort::train::testing
