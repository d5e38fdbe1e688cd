#include "cohort/parallel/gradients/distributed_data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Pairs = std::pair<torch::Tensor, torch::Tensor>;  // data and target

constexpr int kWaveSteps = 3;

// No random numbers: ranks are threads that share the generator.
torch::Tensor wave(c10::IntArrayRef shape, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return torch::arange(count, torch::kDouble).mul(0.37).add(phase).sin().reshape(shape);
}

// As many samples as rows; another batch for each step.
Pairs samples_of(int step, std::int64_t rows, std::int64_t first, std::int64_t count) {
  return {wave({rows, 5}, 10 + step).narrow(0, first, count),
          wave({rows, 2}, 20 + step).narrow(0, first, count)};
}

struct WrappedNetImpl : torch::nn::Module {
  explicit WrappedNetImpl(double phase = 0, bool random = false) {
    register_module("first", first);
    if (random) norm = register_module("norm", torch::nn::BatchNorm1d(7));
    register_module("last", last);
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.copy_(wave(parameter.sizes(), phase += 1) * 0.5);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor hidden = torch::tanh(first(x));
    if (!norm.is_empty()) hidden = torch::dropout(norm(hidden), 0.3, is_training());
    return last(hidden);
  }
  torch::nn::Linear first{5, 7}, last{7, 2};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(WrappedNet);

std::vector<torch::Tensor> state_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> state;
  for (const auto& tensor : module.parameters()) state.push_back(tensor.detach().clone());
  for (const auto& tensor : module.buffers()) state.push_back(tensor.detach().clone());
  return state;
}

void expect_near(const std::vector<torch::Tensor>& found,
                 const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-12, 1e-12)) << i;
}

// What one process that sees batches of 12 samples gets, with an optimizer of LibTorch and no more.
std::vector<torch::Tensor> plain_training() {
  WrappedNet net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  for (int step = 0; step < kWaveSteps; ++step) {
    const auto [x, y] = samples_of(step, 12, 0, 12);
    sgd.zero_grad();
    torch::mse_loss(net->forward(x), y).backward();
    sgd.step();
  }
  return state_of(*net);
}

TEST(DistributedDataParallel, TrainsAsOneProcessWithAnUnchangedOptimizer) {
  const auto expected = plain_training();
  for (const int ranks : {1, 2, 3, 4})
    on_ranks(ranks, [&](Group& group) {
      // Ranks begin with different weights: rank 0's count.
      DDP<WrappedNet> net(group, WrappedNet(group.rank() == 0 ? 0 : 5), {.bucket_bytes = 64});
      torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
      const int share = 12 / group.size();
      for (int step = 0; step < kWaveSteps; ++step) {
        const auto [x, y] = samples_of(step, 12, group.rank() * share, share);
        sgd.zero_grad();
        torch::mse_loss(net(x), y).backward();
        sgd.step();
      }
      expect_near(state_of(*net), expected);
    });
}

// A rank's part of a batch of `rows` samples in `shards` shards.
ShardedBatch<Pairs> part_of(int step, std::int64_t rows, int shards, const Group& group) {
  ShardedBatch<Pairs> batch;
  batch.total = static_cast<double>(rows);
  const auto own = collective::shards_of(group.rank(), group.size(), shards);
  for (int shard = own.first; shard < own.first + own.count; ++shard) {
    const std::int64_t first = rows * shard / shards, end = rows * (shard + 1) / shards;
    batch.shards.push_back(samples_of(step, rows, first, end - first));
    batch.weights.push_back(static_cast<double>(end - first));
  }
  return batch;
}

// Weights, buffers and losses after training with dropout and batch norm.
struct Trained {
  std::vector<torch::Tensor> state;
  std::vector<double> losses;
};

Trained train_in_shards(int ranks, int shards) {
  Trained result;
  std::mutex mutex;
  on_ranks(ranks, [&](Group& group) {
    DDP<WrappedNet> net(group, WrappedNet(0, true), {.virtual_shards = shards, .seed = 7});
    torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(0.01));
    Trained mine;
    for (int step = 0; step < kWaveSteps; ++step) {
      optimizer.zero_grad();
      const auto batch = part_of(step, 19, shards, group);  // shards of 3 and of 4 samples
      mine.losses.push_back(net.backward(
          batch, [&](const Pairs& part) { return torch::mse_loss(net(part.first), part.second); }));
      optimizer.step();
    }
    EXPECT_EQ(net.steps(), kWaveSteps);
    mine.state = state_of(*net);
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) result = mine;
  });
  return result;
}

TEST(DistributedDataParallel, VirtualShardsGiveTheSameBitsAtAnyNumberOfRanks) {
  const Trained expected = train_in_shards(1, 6);
  ASSERT_EQ(expected.losses.size(), static_cast<std::size_t>(kWaveSteps));
  for (const int ranks : {2, 3, 4}) {
    const Trained found = train_in_shards(ranks, 6);
    EXPECT_EQ(found.losses, expected.losses) << ranks;
    ASSERT_EQ(found.state.size(), expected.state.size());
    for (std::size_t i = 0; i < found.state.size(); ++i)
      EXPECT_TRUE(torch::equal(found.state[i], expected.state[i])) << ranks << " ranks, " << i;
  }
}

TEST(DistributedDataParallel, PartsOfAnySizeAreWeightedAndMayBeEmpty) {
  WrappedNet alone;
  const auto [x, y] = samples_of(0, 2, 0, 2);
  torch::mse_loss(alone->forward(x), y).backward();
  std::vector<torch::Tensor> expected;
  for (const auto& parameter : alone->parameters()) expected.push_back(parameter.grad());
  for (const int shards : {0, 5})
    on_ranks(3, [&](Group& group) {  // two samples for three ranks
      DDP<WrappedNet> net(group, WrappedNet(), {.virtual_shards = shards});
      const double loss = net.backward(
          part_of(0, 2, shards == 0 ? 3 : shards, group),
          [&](const Pairs& part) { return torch::mse_loss(net(part.first), part.second); });
      EXPECT_NEAR(loss, torch::mse_loss(alone->forward(x), y).item<double>(), 1e-12);
      std::vector<torch::Tensor> found;
      for (const auto& parameter : net->parameters()) found.push_back(parameter.grad());
      expect_near(found, expected);
    });
}

TEST(DistributedDataParallel, BuffersAreTheMeanOverTheRanks) {
  on_ranks(3, [](Group& group) {
    DDP<torch::nn::BatchNorm1d> net(
        group, torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(1).momentum(1.0)));
    // The mean of this rank's batch is its number.
    net(torch::tensor({{group.rank() - 1.0f}, {group.rank() + 1.0f}})).sum().backward();
    EXPECT_FLOAT_EQ(net->running_mean.item<float>(), 1);
    EXPECT_FLOAT_EQ(net->running_var.item<float>(), 2);
    EXPECT_EQ(net->num_batches_tracked.item<std::int64_t>(), 1);
  });
}

TEST(DistributedDataParallel, UnderNoSyncGradientsAddUpOnEachRank) {
  const auto expected = plain_training();
  on_ranks(2, [&](Group& group) {
    DDP net(group, WrappedNet());
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
    const auto loss_of_part = [&](int step, int part) {
      const auto [x, y] = samples_of(step, 12, group.rank() * 6 + part * 2, 2);
      return torch::mse_loss(net(x), y) / 3;
    };
    for (int step = 0; step < kWaveSteps; ++step) {
      sgd.zero_grad();
      {
        const auto more_follow = net.no_sync();
        loss_of_part(step, 0).backward();
        loss_of_part(step, 1).backward();
      }
      const torch::Tensor mine = net->last->bias.grad().clone();
      double others = mine.sum().item<double>();
      group.all_reduce(std::span(&others, 1));
      EXPECT_NE(others, 2 * mine.sum().item<double>());  // not averaged yet
      loss_of_part(step, 2).backward();
      sgd.step();
    }
    expect_near(state_of(*net), expected);
  });
}

TEST(DistributedDataParallel, WithoutZeroGradAveragesAddUp) {
  on_ranks(3, [](Group& group) {
    // The weight is large enough for a bucket of its own, the bias is not.
    DDP<torch::nn::Linear> net(group, torch::nn::Linear(1024, 512));
    const torch::Tensor x = torch::ones({1, 1024});
    for (int pass = 1; pass <= 3; ++pass) {
      (net(x) * (group.rank() + 1)).sum().backward();  // 2 on average
      for (const auto& parameter : net->parameters())
        EXPECT_TRUE(torch::equal(parameter.grad(), torch::full_like(parameter, 2 * pass))) << pass;
    }
  });
}

struct TwoInputs : torch::nn::Module {
  TwoInputs() {
    register_module("used", used);
    register_module("spare", spare);
  }
  std::tuple<torch::Tensor, std::string> forward(const torch::Tensor& x, double factor,
                                                 bool all = false) {
    torch::Tensor y = used(x) * factor;
    return {all ? y + spare(x) : y, "answer"};
  }
  torch::nn::Linear used{2, 1}, spare{2, 1};
};

TEST(DistributedDataParallel, PassesOnWhateverForwardTakesAndGives) {
  for (const int ranks : {1, 2})
    on_ranks(ranks, [](Group& group) {
      DistributedDataParallel net(group, std::make_shared<TwoInputs>());
      const auto [y, text] = net.forward(torch::ones({3, 2}), 2.0, true);
      EXPECT_EQ(text, "answer");
      y.sum().backward();
      EXPECT_FLOAT_EQ(net->used->bias.grad().item<float>(), 6);
      EXPECT_TRUE(net->named_parameters().contains("used.weight"));  // no prefix
    });
}

TEST(DistributedDataParallel, UnusedParametersAreNamedUnlessAllowed) {
  on_ranks(2, [](Group& group) {
    DistributedDataParallel strict(group, std::make_shared<TwoInputs>());
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  std::get<0>(strict(torch::ones({1, 2}), 1.0)).sum().backward();
                }),
                AllOf(HasSubstr("spare.weight"), HasSubstr("allow_unused")));
    EXPECT_THAT(message_of<Error>([&] {
                  strict(torch::ones({1, 2}), 1.0);
                }),
                HasSubstr("ended with an error"));
  });
  on_ranks(2, [](Group& group) {
    DistributedDataParallel net(group, std::make_shared<TwoInputs>(), {.allow_unused = true});
    // Only rank 1 uses both.
    std::get<0>(net(torch::ones({1, 2}), 1.0, group.rank() == 1)).sum().backward();
    EXPECT_FLOAT_EQ(net->spare->bias.grad().item<float>(), 0.5);
    EXPECT_FLOAT_EQ(net->used->bias.grad().item<float>(), 1);
  });
}

TEST(DistributedDataParallel, TwoModelsOfOneProgramDoNotDisturbEachOther) {
  const auto make = [](double phase) { return WrappedNet(phase); };
  const auto train = [](auto& generator, auto& critic, int first, int count) {
    torch::optim::SGD of_generator(generator->parameters(), 0.1);
    torch::optim::SGD of_critic(critic->parameters(), 0.1);
    for (int step = 0; step < kWaveSteps; ++step) {
      const auto x = wave({12, 5}, step).narrow(0, first, count);
      const auto widen = [](const torch::Tensor& y) {
        return torch::cat({y, y, y}, 1).narrow(1, 0, 5);
      };
      of_critic.zero_grad();
      torch::Tensor fake = generator->forward(x);
      critic->forward(widen(fake.detach())).square().mean().backward();
      of_critic.step();
      of_generator.zero_grad();
      critic->forward(widen(fake)).sin().mean().backward();  // leaves gradients in the critic
      of_generator.step();
    }
  };
  WrappedNet generator = make(0), critic = make(3);
  train(generator, critic, 0, 12);
  on_ranks(3, [&](Group& group) {
    struct Forward {  // so that the same loop does for both
      DDP<WrappedNet> net;
      torch::Tensor forward(const torch::Tensor& x) { return net(x); }
      std::vector<torch::Tensor> parameters() { return net->parameters(); }
    };
    auto own_generator = std::make_unique<Forward>(Forward{DDP<WrappedNet>(group, make(0))});
    auto own_critic = std::make_unique<Forward>(Forward{DDP<WrappedNet>(group, make(3))});
    train(own_generator, own_critic, group.rank() * 4, 4);
    expect_near(state_of(*own_generator->net), state_of(*generator));
    expect_near(state_of(*own_critic->net), state_of(*critic));
  });
}

TEST(DistributedDataParallel, OutsideTrainingNoOtherRankIsAsked) {
  const auto groups = collective::make_inproc_groups(2, std::chrono::seconds(20));
  std::vector<std::unique_ptr<DDP<WrappedNet>>> nets(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        nets[i] = std::make_unique<DDP<WrappedNet>>(
            *groups[i], WrappedNet(0, true), DistributedDataParallelOptions{.virtual_shards = 2});
      });
  }
  DDP<WrappedNet>& net = *nets[0];  // the other rank makes no call from here on
  {
    const torch::NoGradGuard no_grad;
    EXPECT_EQ(net(wave({3, 5}, 0)).size(0), 3);
  }
  net->eval();
  EXPECT_EQ(net(wave({3, 5}, 0)).size(0), 3);
  net->train();
  EXPECT_THAT(message_of<InvalidInput>([&] {
                net(wave({3, 5}, 0));
              }),
              AllOf(HasSubstr("virtual_shards"), HasSubstr("net.backward")));
  EXPECT_THAT(message_of<InvalidInput>([&] { const auto scope = net.no_sync(); }),
              HasSubstr("virtual shards"));
}

// The gradient of an input, which is not to be had.
struct FailsInBackward : torch::autograd::Function<FailsInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("no gradient here");
  }
};

TEST(DistributedDataParallel, AnErrorInForwardLeavesItUsable) {
  const auto expected = plain_training();
  on_ranks(2, [&](Group& group) {
    DDP<WrappedNet> net(group, WrappedNet());
    EXPECT_ANY_THROW(net(torch::ones({2, 9}, torch::kDouble)));  // all ranks alike
    DDP<WrappedNet> sharded(group, WrappedNet(), {.virtual_shards = 2});
    const auto batch = part_of(0, 12, 2, group);
    EXPECT_THAT(message_of<std::runtime_error>([&] {
                  sharded.backward(batch, [](const Pairs&) -> torch::Tensor {
                    throw std::runtime_error("a bad sample");
                  });
                }),
                HasSubstr("a bad sample"));
    const double loss = sharded.backward(batch, [&](const Pairs& part) {
      return torch::mse_loss(sharded(part.first), part.second);
    });
    const auto [x, y] = samples_of(0, 12, group.rank() * 6, 6);
    torch::Tensor own = torch::mse_loss(net(x), y);
    own.backward();
    EXPECT_TRUE(torch::allclose(net->last->bias.grad(), sharded->last->bias.grad()));
    EXPECT_GT(loss, 0);
  });
}

TEST(DistributedDataParallel, AFailedBackwardIsForgottenOrNamed) {
  on_ranks(2, [](Group& group) {
    DDP<WrappedNet> net(group, WrappedNet());
    const auto [x, y] = samples_of(0, 12, group.rank() * 6, 6);
    // Before any gradient was there.
    EXPECT_ANY_THROW(FailsInBackward::apply(net(x)).sum().backward());
    torch::mse_loss(net(x), y).backward();
    EXPECT_TRUE(net->last->bias.grad().defined());
    // After some were taken.
    net->zero_grad();
    torch::Tensor hidden = FailsInBackward::apply(torch::tanh(net->first(x)));
    EXPECT_ANY_THROW(net->last(hidden).sum().backward());
    EXPECT_THAT(message_of<Error>([&] { net(x); }), HasSubstr("ranks no longer agree"));
  });
}

TEST(DistributedDataParallel, TheOtherRanksLearnWhyOneStopped) {
  auto groups = collective::make_inproc_groups(2, std::chrono::seconds(30));
  std::string heard;
  {
    std::jthread other([&] {
      DDP<WrappedNet> net(*groups[1], WrappedNet());
      try {
        net(torch::ones({2, 9}, torch::kDouble));
      } catch (const std::exception&) {
        groups[1]->abort("a batch of the wrong shape");
      }
    });
    DDP<WrappedNet> net(*groups[0], WrappedNet());
    const auto [x, y] = samples_of(0, 12, 0, 6);
    heard = message_of<Error>([&] { torch::mse_loss(net(x), y).backward(); });
  }
  EXPECT_THAT(heard,
              AllOf(HasSubstr("a batch of the wrong shape"), HasSubstr("DistributedDataParallel")));
}

// LibTorch has one autograd thread for them: to wait for each other in backward() would never end.
TEST(DistributedDataParallel, RanksThatShareAGpuInOneProcessAverageOutsideOfBackward) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  WrappedNet alone;
  const auto [x, y] = samples_of(0, 12, 0, 12);
  torch::mse_loss(alone->forward(x), y).backward();
  on_ranks(2, [&](Group& group) {
    WrappedNet module;
    module->to(torch::kCUDA);
    DDP<WrappedNet> net(group, module);
    const auto loss = [&](const Pairs& part) {
      return torch::mse_loss(net(part.first.to(torch::kCUDA)), part.second.to(torch::kCUDA));
    };
    const auto batch = part_of(0, 12, 2, group);
    EXPECT_THAT(message_of<InvalidInput>([&] { loss(batch.shards[0]).backward(); }),
                HasSubstr("share a GPU"));
    EXPECT_GT(net.backward(batch, loss), 0);
    EXPECT_TRUE(torch::allclose(net->last->bias.grad().cpu(), alone->last->bias.grad()));
  });
}

TEST(DistributedDataParallel, RefusesWhatCannotBe) {
  on_ranks(2, [](Group& group) {
    using Options = DistributedDataParallelOptions;
    EXPECT_THAT(message_of<InvalidInput>(
                    [&] { DDP<WrappedNet>(group, WrappedNet(), Options{.virtual_shards = 1}); }),
                AllOf(HasSubstr("virtual_shards is 1"), HasSubstr("2 ranks")));
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  DDP<WrappedNet>(group, WrappedNet(), Options{.virtual_shards = 2, .threads = 0});
                }),
                HasSubstr("threads"));
    DDP<WrappedNet> net(group, WrappedNet(), {.virtual_shards = 4});
    const auto loss = [&](const Pairs& part) {
      return torch::mse_loss(net(part.first), part.second);
    };
    EXPECT_THAT(message_of<InvalidInput>([&] { net.backward(part_of(0, 8, 2, group), loss); }),
                AllOf(HasSubstr("got 1 shards"), HasSubstr("DataLoader")));
    auto batch = part_of(0, 8, 4, group);
    batch.total = 0;
    EXPECT_THAT(message_of<InvalidInput>([&] { net.backward(batch, loss); }),
                HasSubstr("total weight is 0"));
  });
}

}  // namespace
}  // namespace cohort::parallel
