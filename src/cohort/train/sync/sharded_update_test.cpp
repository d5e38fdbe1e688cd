// Training whose workers divide the optimizer's state among themselves.
#include "cohort/train/sync/sharded_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using parallel::Shard;

// Parameters that are cut, with a rest at their end that is no whole vector, and ones that are not.
struct WideNetImpl : torch::nn::Cloneable<WideNetImpl> {
  WideNetImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(64, 301));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({301})));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    second = register_module("second", torch::nn::Linear(301, 211));
    head = register_module("head", torch::nn::Linear(211, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(norm(first(x.flatten(1))));
    return head(torch::relu(second(dropout(y))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, head{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(WideNet);

using MakeAny = std::function<std::shared_ptr<torch::optim::Optimizer>(WideNet&)>;

// Matrices decay, vectors do not: two groups.
template <typename Optimizer, typename Options>
MakeAny with_groups(Options options) {
  return [options](WideNet& net) -> std::shared_ptr<torch::optim::Optimizer> {
    std::vector<torch::Tensor> matrices, vectors;
    for (const auto& parameter : net->parameters())
      (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
    Options decaying = options;
    decaying.weight_decay(0.01);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, std::make_unique<Options>(decaying));
    groups.emplace_back(vectors, std::make_unique<Options>(options));
    return std::make_shared<Optimizer>(groups, options);
  };
}

MakeAny adam() {
  return with_groups<torch::optim::Adam>(torch::optim::AdamOptions(2e-3).amsgrad(true));
}

struct Trained {
  FitResult fit;
  bool optimizer_is_empty = false;
};

Trained train_wide(int replicas, Shard shard, const MakeAny& make, FitOptions fit = {},
                   TrainerOptions options = {}) {
  auto context = job_of(replicas);
  torch::manual_seed(5);
  WideNet net;
  auto optimizer = make(net);
  options.batch_size = 16;
  options.virtual_shards = 4;
  options.shard = shard;
  fit.progress = false;
  Trainer trainer(context.strategy(), net, optimizer, cross_entropy, options);
  Trained trained{trainer.fit(small_images(48), fit)};
  trained.optimizer_is_empty = optimizer->state().empty();
  context.leave();
  return trained;
}

TEST(Sharding, OfTheOptimizerGivesTheBitsOfTheWholeUpdate) {
  const std::vector<std::pair<std::string, MakeAny>> optimizers{
      {"SGD",
       with_groups<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true))},
      {"Adam", adam()},
      {"AdamW", with_groups<torch::optim::AdamW>(torch::optim::AdamWOptions(2e-3))},
      {"RMSprop", with_groups<torch::optim::RMSprop>(
                      torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true))},
      {"Adagrad",
       with_groups<torch::optim::Adagrad>(
           torch::optim::AdagradOptions(0.01).lr_decay(0.1).initial_accumulator_value(0.1))}};
  for (const auto& [name, make] : optimizers) {
    const auto whole = train_wide(1, Shard::none, make, {.epochs = 2});
    for (const int replicas : {2, 3, 4}) {
      const auto divided = train_wide(replicas, Shard::optimizer, make, {.epochs = 2});
      EXPECT_EQ(divided.fit.weights, whole.fit.weights) << name << ", " << replicas;
      EXPECT_TRUE(divided.optimizer_is_empty) << name;
    }
  }
}

TEST(Sharding, KeepsTheBitsWithClippingAccumulationAndASchedule) {
  TrainerOptions options{.accumulate = 2, .clip_norm = 0.5, .log_gradient_norm = true};
  const auto whole = train_wide(1, Shard::none, adam(), {.epochs = 2}, options);
  for (const int replicas : {1, 3}) {
    const auto divided = train_wide(replicas, Shard::optimizer, adam(), {.epochs = 2}, options);
    EXPECT_EQ(divided.fit.weights, whole.fit.weights);
    EXPECT_EQ(divided.fit.history, whole.fit.history);
  }
}

TEST(Sharding, ACheckpointIsThatOfAnUnshardedTrainingAndResumesAnywhere) {
  const auto whole = train_wide(1, Shard::none, adam(), {.epochs = 3});
  ScratchFolder plain, divided;
  const auto saving = [](const ScratchFolder& folder) {
    return FitOptions{.epochs = 3,
                      .max_steps = 4,
                      .callbacks = {std::make_shared<ModelCheckpoint>(
                          folder.path().string(), ModelCheckpointOptions{.every_steps = 4})}};
  };
  train_wide(2, Shard::none, adam(), saving(plain));
  train_wide(3, Shard::optimizer, adam(), saving(divided));
  const auto one = load_latest(plain.path()), other = load_latest(divided.path());
  ASSERT_TRUE(one && other);
  EXPECT_EQ(fingerprint(one->tensors), fingerprint(other->tensors));
  EXPECT_EQ(one->state.optimizers, other->state.optimizers);
  for (const auto& [replicas, shard] :
       {std::pair{1, Shard::none}, {2, Shard::optimizer}, {4, Shard::optimizer}}) {
    const auto resumed =
        train_wide(replicas, shard, adam(), {.epochs = 3, .resume = divided.path().string()});
    EXPECT_EQ(resumed.fit.weights, whole.fit.weights) << replicas;
  }
}

TEST(Sharding, RefusesWhatItCannotDivideByName) {
  const MakeAny lbfgs = [](WideNet& net) {
    return std::make_shared<torch::optim::LBFGS>(net->parameters());
  };
  EXPECT_THAT(message_of<InvalidInput>([&] { train_wide(2, Shard::optimizer, lbfgs); }),
              HasSubstr("LBFGS"));
}

}  // namespace
}  // namespace cohort::train
