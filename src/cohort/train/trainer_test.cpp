#include "cohort/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/load_weights.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using namespace std::chrono_literals;

struct Outcome {
  FitResult fit;
  Logs evaluation;
};

// Trains the small net from the same start with so many replicas.
Outcome train(int replicas, TrainerOptions options, FitOptions fit, std::int64_t samples = 50) {
  auto context = job_of(replicas);
  torch::manual_seed(3);
  SmallNet net;
  options.metrics = {accuracy()};
  fit.progress = false;
  Trainer trainer(context.strategy(), net, sgd(net), cross_entropy, options);
  Outcome outcome;
  outcome.fit = trainer.fit(small_images(samples), fit);
  outcome.evaluation = trainer.evaluate(small_images(31, false), 4);
  context.leave();
  return outcome;
}

TEST(Trainer, LearnsAndReportsWhatItDid) {
  auto outcome = train(1, {.batch_size = 10}, {.epochs = 8});
  ASSERT_EQ(outcome.fit.history.size(), 8u);
  EXPECT_LT(outcome.fit.history.back().at("loss"), 0.7 * outcome.fit.history.front().at("loss"));
  EXPECT_GT(outcome.evaluation.at("accuracy"), 0.6);
  EXPECT_EQ(outcome.fit.step, 40);
  EXPECT_EQ(outcome.fit.weights.size(), 64u);
  EXPECT_EQ(outcome.fit.stopped, "");
}

// 50 samples in batches of 16: the last batch has 2, so most of the 12 shards are empty there.
TEST(Trainer, GivesTheSameBitsForAnyNumberOfReplicas) {
  TrainerOptions options{.batch_size = 16, .virtual_shards = 12};
  FitOptions fit{.epochs = 2, .validation = small_images(31, false), .validation_batch_size = 4};
  auto alone = train(1, options, fit);
  for (int replicas : {2, 3, 4}) {
    auto together = train(replicas, options, fit);
    EXPECT_EQ(together.fit.weights, alone.fit.weights) << replicas << " replicas";
    EXPECT_EQ(together.fit.history, alone.fit.history) << replicas << " replicas";
    EXPECT_EQ(together.evaluation, alone.evaluation) << replicas << " replicas";
  }
}

// A data set whose batches are there only once two of them are asked for at a time.
struct TwoAtOnce : Dataset {
  static constexpr std::size_t kBatch = 10;
  std::int64_t size() const override { return inner->size(); }
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
    if (indices.size() == kBatch) {
      std::unique_lock lock(mutex);
      ++asked;
      changed.notify_all();
      if (!changed.wait_for(lock, 20s, [&] { return asked >= 2; })) alone = true;
    }
    return inner->get(indices, key);
  }
  DatasetPtr inner = small_images(50);
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable int asked = 0;
  mutable bool alone = false;
};

TEST(Trainer, AnyNumberOfThreadsLoadsTheSameBatches) {
  const TrainerOptions options{.batch_size = 16, .virtual_shards = 4};
  const auto alone = train(1, options, {.epochs = 2, .loader_threads = 0});
  for (const int threads : {1, 2, 5}) {
    const auto loaded = train(2, options, {.epochs = 2, .loader_threads = threads});
    EXPECT_EQ(loaded.fit.weights, alone.fit.weights) << threads << " threads";
    EXPECT_EQ(loaded.fit.history, alone.fit.history) << threads << " threads";
  }
}

TEST(Trainer, SeveralThreadsLoadAtOnce) {
  auto context = job_of(1);
  SmallNet net;
  Trainer trainer(context.strategy(), net, sgd(net), cross_entropy,
                  {.batch_size = TwoAtOnce::kBatch});
  const auto data = std::make_shared<TwoAtOnce>();
  trainer.fit(data, {.progress = false, .prefetch = 1, .loader_threads = 2});
  EXPECT_FALSE(data->alone) << "no second batch was asked for while the first was loaded";
  context.leave();
}

TEST(Trainer, SaysWhatShareOfTheTimeItWaitedForData) {
  struct Slow : Dataset {
    std::int64_t size() const override { return inner->size(); }
    Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
      std::this_thread::sleep_for(100ms);  // what reading takes here
      return inner->get(indices, key);
    }
    DatasetPtr inner = small_images(50);
  };
  auto context = job_of(1);
  SmallNet net;
  Trainer trainer(context.strategy(), net, sgd(net), cross_entropy, {.batch_size = 10});
  const auto slow = trainer.fit(std::make_shared<Slow>(), {.progress = false});
  EXPECT_GT(slow.data_share, 0.3);
  EXPECT_LE(slow.data_share, 1);
  context.leave();
}

TEST(Trainer, GivesOtherBitsForAnotherSeedOrNumberOfShards) {
  auto base = train(1, {.batch_size = 16, .virtual_shards = 4}, {.epochs = 1});
  EXPECT_NE(train(1, {.batch_size = 16, .virtual_shards = 4, .seed = 2}, {.epochs = 1}).fit.weights,
            base.fit.weights);
  EXPECT_NE(train(1, {.batch_size = 16, .virtual_shards = 8}, {.epochs = 1}).fit.weights,
            base.fit.weights);
}

TEST(Trainer, KeepsTheBitsWithAccumulationAndClipping) {
  TrainerOptions options{.batch_size = 16, .virtual_shards = 4, .accumulate = 2, .clip_norm = 0.1};
  auto alone = train(1, options, {.epochs = 1});
  EXPECT_EQ(train(3, options, {.epochs = 1}).fit.weights, alone.fit.weights);
  options.clip_norm = 0;
  EXPECT_NE(train(1, options, {.epochs = 1}).fit.weights, alone.fit.weights);
}

TEST(Trainer, CountsEverySampleOnceInItsMetrics) {
  // 7 samples of class 0, 6 of each other one; a model that always says class 0.
  struct AlwaysZero : torch::nn::Cloneable<AlwaysZero> {
    AlwaysZero() { reset(); }
    void reset() override { bias = register_parameter("bias", torch::zeros({3})); }
    torch::Tensor forward(const torch::Tensor& x) {
      return bias + torch::tensor({5.0f, 0.0f, 0.0f}).expand({x.size(0), 3});
    }
    torch::Tensor bias;
  };
  for (int replicas : {1, 2, 3}) {
    auto context = job_of(replicas);
    auto model = std::make_shared<AlwaysZero>();
    Trainer trainer(context.strategy(), model,
                    std::make_shared<torch::optim::SGD>(model->parameters(), 0.1), cross_entropy,
                    {.batch_size = 6, .metrics = {accuracy()}});
    EXPECT_DOUBLE_EQ(trainer.evaluate(small_images(19, false), 4).at("accuracy"), 7.0 / 19);
    context.leave();
  }
}

TEST(Trainer, PredictsInTheOrderOfTheData) {
  auto data = small_images(23, false);
  torch::Tensor alone;
  for (int replicas : {1, 3}) {
    auto context = job_of(replicas);
    torch::manual_seed(3);
    SmallNet net;
    Trainer trainer(context.strategy(), net, sgd(net), cross_entropy, {.batch_size = 12});
    auto outputs = trainer.predict(data, 4);
    ASSERT_EQ(outputs.size(0), 23);
    if (replicas == 1)
      alone = outputs;
    else
      EXPECT_TRUE(torch::equal(outputs, alone));
    context.leave();
  }
}

TEST(Trainer, ResumesInTheMiddleOfAnEpochWithAnotherNumberOfReplicas) {
  TrainerOptions options{.batch_size = 8, .virtual_shards = 6};
  auto straight = train(2, options, {.epochs = 2});
  ScratchFolder folder;
  auto checkpoints = std::make_shared<ModelCheckpoint>(folder.path());
  auto half = train(3, options, {.epochs = 2, .max_steps = 9, .callbacks = {checkpoints}});
  ASSERT_EQ(half.fit.step, 9);
  auto rest = train(2, options, {.epochs = 2, .resume = folder.path()});
  EXPECT_EQ(rest.fit.step, straight.fit.step);
  EXPECT_EQ(rest.fit.weights, straight.fit.weights);
  EXPECT_EQ(rest.fit.history.back(), straight.fit.history.back());
}

TEST(Trainer, ResumesWithTheCheckpointsShardsWhenNoneAreAskedFor) {
  ScratchFolder folder;
  auto checkpoints = std::make_shared<ModelCheckpoint>(folder.path());
  train(4, {.batch_size = 8}, {.max_steps = 3, .callbacks = {checkpoints}});
  auto straight = train(4, {.batch_size = 8}, {.epochs = 1});
  auto rest = train(1, {.batch_size = 8}, {.epochs = 1, .resume = folder.path()});
  EXPECT_EQ(rest.fit.weights, straight.fit.weights);
}

TEST(Trainer, RefusesACheckpointOfAnotherTraining) {
  ScratchFolder folder;
  auto checkpoints = std::make_shared<ModelCheckpoint>(folder.path());
  train(1, {.batch_size = 8}, {.max_steps = 2, .callbacks = {checkpoints}});
  EXPECT_THAT(
      message_of<InvalidInput>([&] { train(1, {.batch_size = 16}, {.resume = folder.path()}); }),
      HasSubstr("the checkpoint was made with batch_size 8, this training has 16"));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { train(1, {.batch_size = 8, .seed = 9}, {.resume = folder.path()}); }),
              HasSubstr("seed 1, this training has 9"));
}

TEST(Trainer, FastDevRunMakesOneStepAndWritesNothing) {
  ScratchFolder folder;
  auto outcome = train(2, {.batch_size = 8},
                       {.epochs = 5,
                        .validation = small_images(31, false),
                        .callbacks = {std::make_shared<ModelCheckpoint>(folder.path() / "c")},
                        .fast_dev_run = true});
  EXPECT_EQ(outcome.fit.step, 1);
  EXPECT_TRUE(outcome.fit.history.at(0).contains("val_loss"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Trainer, RefusesOptionsThatCannotBe) {
  EXPECT_THAT(message_of<InvalidInput>([] { train(1, {.batch_size = 0}, {}); }),
              HasSubstr("batch_size must be at least 1, got 0"));
  EXPECT_THAT(
      message_of<InvalidInput>([] { train(3, {.batch_size = 8, .virtual_shards = 2}, {}); }),
      HasSubstr("virtual_shards must be 0 or at least the 3 replicas, got 2"));
  EXPECT_THAT(message_of<InvalidInput>([] { train(4, {.batch_size = 3}, {}); }),
              HasSubstr("batch_size must be at least the 4 shards of a batch, got 3"));
  EXPECT_THAT(
      message_of<InvalidInput>([] { train(1, {.batch_size = 10}, {.steps_per_epoch = 6}); }),
      HasSubstr("50 samples in batches of 10 are 5 steps"));
}

TEST(Trainer, SaysWhichModelCannotBeCopied) {
  struct Plain : torch::nn::Module {
    Plain() { layer = register_module("layer", torch::nn::Linear(4, 3)); }
    torch::Tensor forward(const torch::Tensor& x) { return layer(x.flatten(1).narrow(1, 0, 4)); }
    torch::nn::Linear layer{nullptr};
  };
  auto fit_with = [](Model model) {
    auto context = job_of(2);
    Trainer trainer(context.strategy(), model,
                    std::make_shared<torch::optim::SGD>(model.module().parameters(), 0.1),
                    cross_entropy, {.batch_size = 10});
    trainer.fit(small_images(20), {.progress = false});
    context.leave();
  };
  EXPECT_THAT(message_of<InvalidInput>([&] { fit_with(std::make_shared<Plain>()); }),
              HasSubstr("Cloneable"));
  fit_with([] { return std::make_shared<Plain>(); });  // a function that makes them helps
}

TEST(Trainer, EndsWhenTheLossIsNotANumber) {
  auto context = job_of(2);
  SmallNet net;
  Trainer trainer(context.strategy(), net, sgd(net),
                  [](const torch::Tensor& output, const torch::Tensor&) {
                    return output.mean() * std::numeric_limits<double>::quiet_NaN();
                  },
                  {.batch_size = 10});
  EXPECT_THAT(message_of<Error>([&] { trainer.fit(small_images(20), {.progress = false}); }),
              HasSubstr("the loss of step 0 is nan"));
}

TEST(Trainer, TrainsInMixedPrecisionToTheSameBits) {
  TrainerOptions options{.batch_size = 16, .virtual_shards = 4, .precision = Precision::bf16};
  auto alone = train(1, options, {.epochs = 2});
  EXPECT_EQ(train(2, options, {.epochs = 2}).fit.weights, alone.fit.weights);
  options.precision = Precision::f32;
  EXPECT_NE(train(1, options, {.epochs = 2}).fit.weights, alone.fit.weights);
}

TEST(Trainer, LearnsWithoutDeterminismToo) {
  auto outcome = train(2, {.batch_size = 10, .deterministic = false}, {.epochs = 30});
  double best = outcome.fit.history.front().at("loss");
  for (const Logs& epoch : outcome.fit.history) best = std::min(best, epoch.at("loss"));
  EXPECT_LT(best, 0.8 * outcome.fit.history.front().at("loss"));
}

TEST(Trainer, FrozenLayersStayFrozenInEveryReplica) {
  const auto train_head = [](int replicas) {
    auto context = job_of(replicas);
    torch::manual_seed(3);
    SmallNet net;
    for (auto& parameter : net->conv->parameters()) parameter.set_requires_grad(false);
    const torch::Tensor before = net->conv->weight.detach().clone();
    Trainer trainer(context.strategy(), net, sgd(net), cross_entropy,
                    {.batch_size = 16, .virtual_shards = 4});
    auto result = trainer.fit(small_images(40), {.progress = false});
    EXPECT_TRUE(torch::equal(net->conv->weight, before));
    context.leave();
    return result.weights;
  };
  EXPECT_EQ(train_head(2), train_head(1));
}

TEST(Trainer, ValidatesEveryFewStepsAndLogsTheGradientsNorm) {
  struct Note : Callback {
    void on_step_end(FitState& fit) override {
      EXPECT_GT(fit.logs.at("grad_norm"), 0);
      if (fit.logs.contains("val_loss")) steps.push_back(fit.step);
    }
    std::vector<std::int64_t> steps;
  };
  auto note = std::make_shared<Note>();
  TrainerOptions options{.batch_size = 10, .virtual_shards = 2};
  auto plain = train(1, options, {.epochs = 2});
  options.log_gradient_norm = true;
  auto noted = train(2, options,
                     {.epochs = 2,
                      .validation = small_images(12, false),
                      .validate_every = 2,
                      .callbacks = {note}});
  EXPECT_EQ(noted.fit.weights, plain.fit.weights);
  EXPECT_THAT(note->steps, ::testing::ElementsAre(2, 4, 6, 8));
  EXPECT_TRUE(noted.fit.history.back().contains("val_loss"));
}

TEST(Trainer, WeightsAloneMakeAWarmStart) {
  ScratchFolder folder;
  auto trained = train(1, {.batch_size = 10},
                       {.callbacks = {std::make_shared<ModelCheckpoint>(folder.path())}});
  SmallNet net;
  EXPECT_THAT(load_weights(*net, folder.path()), ::testing::IsEmpty());
  EXPECT_EQ(fingerprint(*net), trained.fit.weights);
  const auto file = find_latest(folder.path()).value().replace_extension(".safetensors");
  SmallNet again;
  load_weights(*again, file);
  EXPECT_EQ(fingerprint(*again), trained.fit.weights);

  struct OtherHead : torch::nn::Module {
    OtherHead() {
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
      register_module("head", torch::nn::Linear(64, 5));
    }
  } other;
  EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(other, folder.path()); }),
              HasSubstr("'head.weight' is"));
  EXPECT_THAT(load_weights(other, folder.path(), {.strict = false}),
              ::testing::IsSupersetOf({"head.weight", "head.bias", "norm.weight"}));
  EXPECT_TRUE(torch::equal(other.named_parameters()["conv.weight"], net->conv->weight));
  EXPECT_THROW(load_weights(*net, folder.path() / "none.safetensors"), Error);
  torch::nn::Linear nothing(2, 2);
  EXPECT_THAT(
      message_of<InvalidInput>([&] { load_weights(*nothing, folder.path(), {.strict = false}); }),
      HasSubstr("nothing in"));
}

TEST(Trainer, AnEpochKeepsItsLengthWhenItIsResumed) {
  ScratchFolder folder;
  train(1, {.batch_size = 5},
        {.max_steps = 7, .callbacks = {std::make_shared<ModelCheckpoint>(folder.path())}});
  EXPECT_THAT(message_of<InvalidInput>([&] {
                train(1, {.batch_size = 5}, {.steps_per_epoch = 4, .resume = folder.path()});
              }),
              HasSubstr("steps_per_epoch must be at least 7, where training stands, got 4"));
  const auto look = train(1, {.batch_size = 5}, {.fast_dev_run = true, .resume = folder.path()});
  EXPECT_EQ(look.fit.step, 1);  // a look resumes nothing
}

TEST(Trainer, ASecondOneWithoutSharingIsFine) {
  auto context = job_of(2);
  for (int i = 0; i < 2; ++i) {
    SmallNet net;
    Trainer trainer(context.strategy(), net, sgd(net), cross_entropy, {.batch_size = 10});
    trainer.fit(small_images(20), {.progress = false});
  }
  context.leave();
}

}  // namespace
}  // namespace cohort::train
