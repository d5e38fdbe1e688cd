#pragma once

#include <cohort/cohort.h>
#include <torch/torch.h>

// Two networks against each other (Goodfellow et al., 2014): one makes points out of noise, the
// other tells them from real ones.
namespace examples {

inline constexpr std::int64_t kNoise = 8;  // numbers that a point is made of

struct GanImpl : torch::nn::Cloneable<GanImpl> {
  GanImpl() { reset(); }

  void reset() override {
    generator = register_module("generator", layers(kNoise, 2));
    discriminator = register_module("discriminator", layers(2, 1));
  }

  static torch::nn::Sequential layers(std::int64_t in, std::int64_t out) {
    using torch::nn::LeakyReLU;
    using torch::nn::Linear;
    return torch::nn::Sequential(Linear(in, 64), LeakyReLU(), Linear(64, 64), LeakyReLU(),
                                 Linear(64, out));
  }

  torch::nn::Sequential generator{nullptr}, discriminator{nullptr};
};
TORCH_MODULE(Gan);

// How far the discriminator is from calling these points real (or not).
inline torch::Tensor cost(Gan& net, const torch::Tensor& points, bool real) {
  const auto verdict = net->discriminator->forward(points);
  return torch::binary_cross_entropy_with_logits(verdict,
                                                 torch::full_like(verdict, real ? 1.0 : 0.0));
}

// What the two phases of a step make small.
inline torch::Tensor discriminator_loss(Gan& net, const torch::Tensor& real,
                                        const torch::Tensor& noise) {
  const auto made = net->generator->forward(noise).detach();
  return cost(net, real, true) + cost(net, made, false);
}

inline torch::Tensor generator_loss(Gan& net, const torch::Tensor& noise) {
  return cost(net, net->generator->forward(noise), true);
}

}  // namespace examples
