// The weights after some steps have the same bits for any number of replicas, and those are the
// bits of a plain loop that knows nothing of replicas.
#include <gtest/gtest.h>

#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/buffer_sync.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/strategies/replicas_test.h"
#include "cohort/parallel/tensors/random_scope.h"

namespace cohort::parallel {
namespace {

using collective::Group;
namespace nn = torch::nn;

constexpr int kSteps = 3;
constexpr int kSamples = 3;  // in a shard

struct CnnImpl : nn::Module {
  nn::Conv2d first{nullptr}, second{nullptr};
  nn::Linear last{nullptr};
  CnnImpl() {
    first = register_module("first", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)));
    second = register_module("second", nn::Conv2d(nn::Conv2dOptions(8, 16, 3).stride(2)));
    last = register_module("last", nn::Linear(16, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(first(x));
    x = torch::relu(second(x));
    return last(x.mean({2, 3}));
  }
};
TORCH_MODULE(Cnn);

struct ResidualImpl : nn::Module {
  nn::Conv2d in{nullptr}, a{nullptr}, b{nullptr};
  nn::BatchNorm2d norm_a{nullptr}, norm_b{nullptr};
  nn::Dropout drop{nullptr};
  nn::Linear last{nullptr};
  ResidualImpl() {
    const auto conv = [](int from, int to) {
      return nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
    };
    in = register_module("in", conv(3, 8));
    a = register_module("a", conv(8, 8));
    norm_a = register_module("norm_a", nn::BatchNorm2d(8));
    b = register_module("b", conv(8, 8));
    norm_b = register_module("norm_b", nn::BatchNorm2d(8));
    drop = register_module("drop", nn::Dropout(0.3));
    last = register_module("last", nn::Linear(8, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = in(x);
    torch::Tensor y = torch::relu(norm_a(a(x)));
    x = torch::relu(norm_b(b(y)) + x);
    return last(drop(x.mean({2, 3})));
  }
};
TORCH_MODULE(Residual);

// One shard's loss; its data and its dropout follow from the step and the shard.
template <typename Model>
torch::Tensor loss_of(Model& model, int shards) {
  const torch::Tensor x = torch::randn({kSamples, 3, 8, 8});
  const torch::Tensor y = torch::randint(10, {kSamples});
  return torch::cross_entropy_loss(model->forward(x), y) / shards;
}

std::uint64_t seed_of(int step, int shard) {
  return 1000u * static_cast<unsigned>(step) + static_cast<unsigned>(shard);
}

template <typename Model>
std::vector<torch::Tensor> state_of(const Model& model) {
  std::vector<torch::Tensor> state;
  for (const auto& [name, tensor] : parameters_of(model)) state.push_back(tensor.detach().clone());
  for (const auto& [name, tensor] : buffers_of(model)) state.push_back(tensor.clone());
  return state;
}

// Shard by shard, and the sum in tree order by plain tensor additions.
template <typename Model>
std::vector<torch::Tensor> train_plainly(Model model, int shards) {
  const NamedTensors parameters = parameters_of(model), buffers = buffers_of(model);
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<torch::Tensor>> gradients(parameters.size()), values(buffers.size());
    std::vector<torch::Tensor> before;
    for (const auto& [name, buffer] : buffers) before.push_back(buffer.clone());
    for (int shard = 0; shard < shards; ++shard) {
      for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].second.copy_(before[i]);
      for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
      torch::manual_seed(seed_of(step, shard));
      loss_of(model, shards).backward();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        gradients[i].push_back(parameters[i].second.grad().clone());
      for (std::size_t i = 0; i < buffers.size(); ++i)
        values[i].push_back(buffers[i].second.to(torch::kDouble) * (1.0 / shards));
    }
    const auto count = static_cast<std::size_t>(shards);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].second.mutable_grad() = tree_sum(gradients[i], 0, count);
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].second.is_floating_point())
        buffers[i].second.copy_(tree_sum(values[i], 0, count));
    optimizer.step();
  }
  return state_of(model);
}

template <typename Model>
std::vector<torch::Tensor> train(Group& group, Model model, int shards,
                                 std::vector<collective::ShardRange> runs = {}) {
  GradientSync gradients(
      group, parameters_of(model),
      {.bucket_bytes = 4096, .first_bucket_bytes = 1024, .shards = shards, .runs = runs});
  BufferSync buffers(group, buffers_of(model), shards, runs);
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < gradients.shard_count(); ++i) {
      const int shard = gradients.first_shard() + i;
      const RandomScope random(seed_of(step, shard), torch::kCPU, group.size() > 1);
      gradients.begin_shard(shard);
      buffers.begin_shard();
      loss_of(model, shards).backward();
      buffers.end_shard(1.0 / shards);
      gradients.end_shard();
    }
    gradients.finish(soon());
    buffers.finish(soon());
    optimizer.step();
  }
  return state_of(model);
}

// On `replicas` replicas with the same weights at first.
template <typename Model>
void expect_bits(const std::vector<torch::Tensor>& expected, int replicas, int shards,
                 std::vector<collective::ShardRange> runs = {}) {
  std::vector<Model> models;
  for (int i = 0; i < replicas; ++i) {
    torch::manual_seed(3);
    models.push_back(Model());
  }
  run_replicas(replicas, [&](Group& group) {
    const auto state = train(group, models[static_cast<std::size_t>(group.rank())], shards, runs);
    ASSERT_EQ(state.size(), expected.size());
    for (std::size_t i = 0; i < state.size(); ++i)
      EXPECT_TRUE(same_bits(state[i], expected[i])) << "tensor " << i;
  });
}

template <typename Model>
void expect_same_bits_for_any_number_of_replicas() {
  at::set_num_threads(1);
  for (const int shards : {4, 12}) {
    torch::manual_seed(3);
    const std::vector<torch::Tensor> expected = train_plainly(Model(), shards);
    for (const int replicas : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(shards) + " shards on " + std::to_string(replicas));
      expect_bits<Model>(expected, replicas, shards);
    }
  }
}

TEST(SameBits, OfACnn) { expect_same_bits_for_any_number_of_replicas<Cnn>(); }
TEST(SameBits, OfAResidualBlockWithBatchNormAndDropout) {
  expect_same_bits_for_any_number_of_replicas<Residual>();
}

TEST(SameBits, OfReplicasOfWhichOneHasNoShards) {
  at::set_num_threads(1);
  constexpr int kShards = 4;
  torch::manual_seed(3);
  const std::vector<torch::Tensor> expected = train_plainly(Residual(), kShards);
  for (const int owners : {1, 2, 3})
    for (int idle = 0; idle <= owners; ++idle) {
      SCOPED_TRACE(std::to_string(owners) + " owners, rank " + std::to_string(idle) + " idle");
      std::vector<collective::ShardRange> runs;
      for (int owner = 0; owner < owners; ++owner)
        runs.push_back(collective::shards_of(owner, owners, kShards));
      runs.insert(runs.begin() + idle, collective::ShardRange{});
      expect_bits<Residual>(expected, owners + 1, kShards, runs);
    }
}

}  // namespace
}  // namespace cohort::parallel
