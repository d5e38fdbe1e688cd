#pragma once

#include <torch/torch.h>

namespace cohort::train {

// For tests: a model with weights, biases, a buffer of statistics and an integer buffer.
struct SmallModelImpl : torch::nn::Module {
  explicit SmallModelImpl(int hidden = 8) {
    conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    first = register_module("first", torch::nn::Linear(4 * 4 * 4, hidden));
    second = register_module("second", torch::nn::Linear(hidden, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(conv(x))).flatten(1);
    return second(torch::tanh(first(x)));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(SmallModel);

inline SmallModel make_model(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return SmallModel();
}

// Step `step` of a training whose data depend on the step alone.
inline void train_step(SmallModel& model, torch::optim::Optimizer& optimizer, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(1'000 + step));
  const auto input = torch::randn({6, 1, 6, 6});
  const auto target = torch::randn({6, 3});
  optimizer.zero_grad();
  torch::mse_loss(model->forward(input), target).backward();
  optimizer.step();
}

}  // namespace cohort::train
