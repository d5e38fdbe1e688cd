#pragma once

#include <torch/torch.h>

#include <vector>

// The residual networks for CIFAR-10 of He et al., "Deep residual learning for image recognition"
// (2015), section 4.2: 6n + 2 layers in three stages of 16, 32 and 64 channels.
namespace examples {

struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  BlockImpl(int64_t in, int64_t out, int64_t stride) : in_(in), out_(out), stride_(stride) {
    reset();
  }

  void reset() override {
    using torch::nn::BatchNorm2d;
    using torch::nn::Conv2d;
    using torch::nn::Conv2dOptions;
    conv1 = register_module(
        "conv1", Conv2d(Conv2dOptions(in_, out_, 3).stride(stride_).padding(1).bias(false)));
    norm1 = register_module("norm1", BatchNorm2d(out_));
    conv2 = register_module("conv2", Conv2d(Conv2dOptions(out_, out_, 3).padding(1).bias(false)));
    norm2 = register_module("norm2", BatchNorm2d(out_));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(norm1(conv1(x)));
    y = norm2(conv2(y));
    return torch::relu(y + shortcut(x));
  }

 private:
  // Every second pixel, new channels zero: no parameters.
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (in_ == out_) return x;
    using torch::indexing::Slice;
    auto smaller = x.index({Slice(), Slice(), Slice(0, {}, stride_), Slice(0, {}, stride_)});
    return torch::constant_pad_nd(smaller, {0, 0, 0, 0, 0, out_ - in_});
  }

  int64_t in_, out_, stride_;
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(Block);

struct ResNetImpl : torch::nn::Cloneable<ResNetImpl> {
  explicit ResNetImpl(int64_t layers = 20, int64_t classes = 10)
      : layers_(layers), classes_(classes) {
    reset();
  }

  void reset() override {
    stem = register_module(
        "stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    blocks = register_module("blocks", torch::nn::Sequential());
    int64_t in = 16;
    for (int64_t out : {16, 32, 64})
      for (int64_t i = 0; i < (layers_ - 2) / 6; ++i) {
        blocks->push_back(Block(in, out, in == out ? 1 : 2));
        in = out;
      }
    head = register_module("head", torch::nn::Linear(64, classes_));
    for (auto& module : modules(/*include_self=*/false))
      if (auto* conv = module->as<torch::nn::Conv2d>())
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = blocks->forward(torch::relu(norm(stem(x))));
    return head(x.mean({2, 3}));
  }

 private:
  int64_t layers_, classes_;
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential blocks{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace examples
