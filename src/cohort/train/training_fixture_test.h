#pragma once

#include <torch/torch.h>

#include <string>

#include "cohort/parallel/strategies/context.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/transforms.h"
#include "cohort/train/model/losses.h"
#include "cohort/train/trainer.h"

// What the tests of training share: a small model with everything that could depend on the number
// of workers (batch norm, dropout), data with augmentation, and replicas as threads.
namespace cohort::train::testing {

struct SmallNetImpl : torch::nn::Cloneable<SmallNetImpl> {
  SmallNetImpl() { reset(); }

  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    head = register_module("head", torch::nn::Linear(4 * 4 * 4, 3));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::max_pool2d(torch::relu(norm(conv(x))), 2);
    return head(dropout(y.flatten(1)));
  }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(SmallNet);

// 8 x 8 images of three classes that differ in brightness: learnable, and the same every time.
inline DatasetPtr small_images(std::int64_t samples, bool augmented = true) {
  auto generator = at::detail::createCPUGenerator(7);
  auto target = torch::arange(samples).remainder(3);
  auto data = torch::rand({samples, 1, 8, 8}, generator) * 0.5 +
              target.to(torch::kFloat32).view({-1, 1, 1, 1}) * 0.25;
  DatasetPtr images = std::make_shared<TensorDataset>(data, target);
  if (!augmented) return images;
  return std::make_shared<Transformed>(
      images, std::vector<Transform>{RandomCrop{.padding = 1}, HorizontalFlip{}});
}

// A job of one process with so many replicas as threads.
inline Context job_of(int replicas) {
  return init(cluster::Environment{},
              {"--distribution_strategy=mirrored", "--num_replicas=" + std::to_string(replicas)});
}

inline std::shared_ptr<torch::optim::Optimizer> sgd(const SmallNet& net, double rate = 0.05) {
  return std::make_shared<torch::optim::SGD>(net->parameters(),
                                             torch::optim::SGDOptions(rate).momentum(0.9));
}

}  // namespace cohort::train::testing
