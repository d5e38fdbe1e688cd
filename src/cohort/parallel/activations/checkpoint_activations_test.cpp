#include "cohort/parallel/activations/checkpoint_activations.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/version.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/strategies/replicas_test.h"
#include "cohort/parallel/tensors/random_scope.h"

namespace cohort::parallel {
namespace {

using ::testing::HasSubstr;

// A layer with all that a second time could do otherwise.
struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(std::int64_t width)
      : in(register_module("in", torch::nn::Linear(width, 4 * width))),
        out(register_module("out", torch::nn::Linear(4 * width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        dropout(register_module("dropout", torch::nn::Dropout(0.4))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    ++calls;
    return x + dropout(out(torch::gelu(in(norm(x)))));
  }
  torch::nn::Linear in, out;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout dropout;
  int calls = 0;
};
TORCH_MODULE(Layer);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < 3; ++i) layers->push_back(Layer(16));
    register_module("layers", layers);
    scale = register_parameter("scale", torch::ones({16}));
  }
  torch::Tensor forward(torch::Tensor x, bool again) {
    x = x * scale;  // used inside a part, too
    for (const auto& item : *layers) {
      Layer layer(std::dynamic_pointer_cast<LayerImpl>(item));
      x = again ? checkpoint_activations(layer, x) : layer(x);
    }
    const auto last = [this](const torch::Tensor& y) { return y * scale; };
    return again ? checkpoint_activations(last, x) : last(x);
  }
  torch::nn::ModuleList layers;
  torch::Tensor scale;
};
TORCH_MODULE(Net);

void set_cpu_autocast(bool on) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
  at::autocast::set_autocast_enabled(torch::kCPU, on);
#else
  at::autocast::set_cpu_enabled(on);
#endif
}

std::vector<torch::Tensor> state_after(bool again, bool shared_process, bool autocast) {
  torch::manual_seed(4);
  Net net;
  std::vector<torch::Tensor> all;
  for (int step = 0; step < 2; ++step) {
    const RandomScope random(static_cast<std::uint64_t>(step + 1), torch::kCPU, shared_process);
    torch::Tensor x = torch::randn({8, 16}).requires_grad_();
    torch::Tensor loss;
    if (autocast) {
      set_cpu_autocast(true);
      loss = net(x, again).pow(2).sum();
      set_cpu_autocast(false);
      at::autocast::clear_cache();
    } else {
      loss = net(x, again).pow(2).sum();
    }
    loss.backward();
    all.push_back(loss.detach());
    all.push_back(x.grad());
    all.push_back(torch::randn({3}));  // what is drawn after it
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : net->parameters()) {
      parameter.sub_(parameter.grad() * 0.01);
      all.push_back(parameter.detach().clone());
    }
    for (const torch::Tensor& buffer : net->buffers()) all.push_back(buffer.clone());
  }
  return all;
}

TEST(CheckpointActivations, GivesTheBitsOfAPlainPass) {
  for (const bool shared_process : {false, true})
    for (const bool autocast : {false, true}) {
      const auto plain = state_after(false, shared_process, autocast);
      const auto again = state_after(true, shared_process, autocast);
      ASSERT_EQ(plain.size(), again.size());
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(torch::equal(plain[i], again[i])) << i << " " << shared_process << autocast;
    }
}

TEST(CheckpointActivations, ComputesAgainOnlyForBackward) {
  Layer layer(4);
  const torch::Tensor x = torch::randn({3, 4}).requires_grad_();
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(checkpoint_activations(layer, x).requires_grad());
    EXPECT_EQ(layer->calls, 1);
  }
  torch::Tensor y = checkpoint_activations(layer, x);
  EXPECT_EQ(layer->calls, 2);
  y.sum().backward();
  EXPECT_EQ(layer->calls, 3);
  EXPECT_EQ(layer->norm->num_batches_tracked.item<std::int64_t>(), 2);
}

// What is alive of tensors made while it lives, as far as deleters tell: graph nodes keep them.
std::size_t bytes_kept(bool again) {
  torch::manual_seed(1);
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 8; ++i) layers.emplace_back(64, 64);
  torch::Tensor x = torch::randn({512, 64}).requires_grad_();
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  for (auto& layer : layers) {
    const auto part = [&](const torch::Tensor& in) {
      torch::Tensor a = layer(in), b = torch::tanh(a), c = b * b, d = torch::sigmoid(c);
      for (const auto& one : {a, b, c, d})
        made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            one.storage().unsafeGetStorageImpl()));
      return d;
    };
    x = again ? checkpoint_activations(part, x) : part(x);
  }
  std::size_t bytes = 0;
  for (auto& one : made)
    if (const auto alive = one.lock()) bytes += alive->nbytes();
  x.sum().backward();
  return bytes;
}

TEST(CheckpointActivations, KeepsNoMoreThanThePartsInputs) {
  const std::size_t one = 512 * 64 * sizeof(float);
  EXPECT_GE(bytes_kept(false), 8 * 2 * one);
  EXPECT_LE(bytes_kept(true), 8 * one);
}

TEST(CheckpointActivations, WorksWithGradientsThatAreSummedAsTheyCome) {
  const auto gradients_of = [](bool again) {
    std::vector<torch::Tensor> gradients;
    run_replicas(2, [&](collective::Group& group) {
      torch::Tensor w = torch::full({300, 300}, 0.01).requires_grad_();
      torch::Tensor v = torch::full({300}, 0.5).requires_grad_();
      GradientSync sync(group, {{"w", w}, {"v", v}});
      sync.begin_shard(group.rank());
      const auto layer = [&](const torch::Tensor& x) { return torch::tanh(x.matmul(w)) * v; };
      torch::Tensor x = torch::full({4, 300}, 1.0 + group.rank());
      for (int i = 0; i < 3; ++i) x = again ? checkpoint_activations(layer, x) : layer(x);
      x.sum().backward();
      sync.end_shard();
      sync.finish(soon());
      if (group.rank() == 0) gradients = {w.grad().clone(), v.grad().clone()};
    });
    return gradients;
  };
  const auto plain = gradients_of(false), again = gradients_of(true);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], again[i]));
}

TEST(CheckpointActivations, SaysWhenTheSecondTimeDiffers) {
  int calls = 0;
  const auto fickle = [&](const torch::Tensor& x) {
    return std::vector<torch::Tensor>(static_cast<std::size_t>(++calls), x * 2);
  };
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const auto outputs = checkpoint_activations(fickle, x);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(message_of<InvalidInput>([&] { outputs[0].sum().backward(); }),
              HasSubstr("1 tensors first and 2"));
}

}  // namespace
}  // namespace cohort::parallel
