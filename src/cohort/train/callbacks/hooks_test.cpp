#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/strategies/worker_threads_test.h"
#include "cohort/train/callbacks/early_stopping.h"
#include "cohort/train/callbacks/learning_rate_schedules.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/callbacks/monitor.h"
#include "cohort/train/callbacks/reduce_on_plateau.h"
#include "cohort/train/callbacks/scheduler.h"
#include "cohort/train/callbacks/step_schedules.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/metrics/means.h"
#include "cohort/train/metrics/roc_auc.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

using Callbacks = std::vector<std::shared_ptr<Callback>>;

// A training of four shards by so many replicas of one process.
struct HookedRun {
  TrainerOptions options{.batch_size = 10, .virtual_shards = 4};
  FitOptions fit{.epochs = 2};
  double rate = 0.05;

  FitResult result = {};
  Logs evaluation = {};

  HookedRun& with(int replicas, const Callbacks& callbacks = {}) {
    Context context = job_of(replicas);
    torch::manual_seed(3);
    SmallNet net;
    // Two groups of different rates.
    auto optimizer = std::make_shared<torch::optim::SGD>(
        std::vector<torch::optim::OptimizerParamGroup>{
            torch::optim::OptimizerParamGroup(net->conv->parameters()),
            torch::optim::OptimizerParamGroup(
                net->head->parameters(), std::make_unique<torch::optim::SGDOptions>(rate / 10)),
            torch::optim::OptimizerParamGroup(net->norm->parameters())},
        torch::optim::SGDOptions(rate));
    Trainer trainer(context.strategy(), net, optimizer, cross_entropy, options);
    FitOptions own = fit;
    own.callbacks = callbacks;
    own.progress = false;
    result = trainer.fit(small_images(40), own);
    evaluation = trainer.evaluate(small_images(31, false), 4);
    context.leave();
    return *this;
  }
};

// Weights of its own for each step, as a regulariser or noise on the gradient would have.
struct Tilt : GradientCallback {
  void on_before_update(FitState& fit) override {
    ++calls;
    for (torch::Tensor& parameter : fit.model().parameters())
      parameter.mutable_grad().add_(parameter.detach(), 0.01 * static_cast<double>(calls));
  }
  int calls = 0;
};

TEST(Hooks, AGradientCallbackChangesTheUpdateTheSameWayOnAllReplicas) {
  auto alone = std::make_shared<Tilt>();
  HookedRun run;
  run.options.clip_norm = 0.5;
  const std::string weights = run.with(1, {alone}).result.weights;
  EXPECT_EQ(alone->calls, 8);
  EXPECT_NE(weights, run.with(1).result.weights);
  for (int replicas : {2, 4}) {
    auto tilt = std::make_shared<Tilt>();
    EXPECT_EQ(run.with(replicas, {tilt}).result.weights, weights) << replicas;
    EXPECT_EQ(tilt->calls, 8);
  }
}

TEST(Hooks, OfSeveralWorkersGiveTheBitsOfOne) {
  const auto train = [](Context& context, std::string& weights) {
    PlainNet net;
    for (torch::Tensor& parameter : net->parameters()) parameter.detach().fill_(0.05);
    Trainer trainer(context.strategy(), net,
                    std::make_shared<torch::optim::SGD>(net->parameters(), 0.05), cross_entropy,
                    {.batch_size = 8, .virtual_shards = 4, .ema = {.decay = 0.5}});
    trainer.fit(small_images(24, false),
                {.epochs = 2, .callbacks = {std::make_shared<Tilt>()}, .progress = false});
    trainer.apply_average();
    weights = trainer.weights();
  };
  std::vector<std::string> found;
  for (int workers : {1, 2, 3}) {
    std::vector<std::string> weights(static_cast<std::size_t>(workers));
    EXPECT_THAT(parallel::WorkerThreads().run(
                    workers, {},
                    [&](Context& context) {
                      train(context, weights[static_cast<std::size_t>(context.rank())]);
                    }),
                ::testing::Each(""));
    found.insert(found.end(), weights.begin(), weights.end());
  }
  EXPECT_THAT(found, ::testing::Each(found.front()));
}

TEST(Hooks, ComeInTheirOrder) {
  struct Note : GradientCallback {
    void note(const std::string& name) { notes.push_back(name); }
    void on_step_begin(FitState&) override { note("step"); }
    void on_before_update(FitState& fit) override {
      note("before");
      before = fit.model().parameters()[0].detach().clone();
      EXPECT_TRUE(fit.model().parameters()[0].grad().defined());
    }
    void on_after_update(FitState& fit) override {
      note("after");
      EXPECT_FALSE(torch::equal(before, fit.model().parameters()[0]));
    }
    void on_step_end(FitState&) override { note("end"); }
    void on_validation_begin(FitState& fit) override {
      note("validate");
      EXPECT_FALSE(fit.logs.contains("val_loss"));
    }
    void on_validation_end(FitState& fit) override {
      note("validated");
      EXPECT_TRUE(fit.logs.contains("val_loss"));
      fit.logs["val_bonus"] = 1;
    }
    void on_epoch_end(FitState& fit) override {
      note("epoch");
      EXPECT_EQ(fit.logs.at("val_bonus"), 1);
      EXPECT_TRUE(fit.logs.contains("loss"));
    }
    std::vector<std::string> notes;
    torch::Tensor before;
  };
  auto note = std::make_shared<Note>();
  HookedRun run;
  run.fit = {.epochs = 1,
             .steps_per_epoch = 3,
             .validation = small_images(12, false),
             .validate_every = 2};
  run.with(2, {note});
  EXPECT_THAT(note->notes, ElementsAre("step", "before", "after", "end", "step", "before", "after",
                                       "validate", "validated", "end", "step", "before", "after",
                                       "end", "validate", "validated", "epoch"));
}

// Rates of the first two groups at every step.
struct GroupRates : Callback {
  void on_step_begin(FitState& fit) override {
    const auto& groups = fit.optimizer().param_groups();
    first.push_back(groups[0].options().get_lr());
    second.push_back(groups[1].options().get_lr());
  }
  std::vector<double> first, second;
};

Scheduler::Make step_lr(unsigned steps, double gamma) {
  return [=](torch::optim::Optimizer& optimizer) {
    return std::make_shared<torch::optim::StepLR>(optimizer, steps, gamma);
  };
}

TEST(Schedules, OfLibTorchStepAsInALoopByStepsOrByEpochs) {
  for (const Every every : {Every::step, Every::epoch}) {
    // The loop of one's own: step() after each.
    auto weight = torch::zeros({1}, torch::requires_grad());
    torch::optim::SGD alone({weight}, 0.05);
    torch::optim::StepLR scheduler(alone, 2, 0.5);
    std::vector<double> expected;
    for (int step = 0; step < 16; ++step) {
      expected.push_back(alone.param_groups()[0].options().get_lr());
      if (every == Every::step || step % 4 == 3) scheduler.step();
    }
    auto rates = std::make_shared<GroupRates>();
    HookedRun run;
    run.fit.epochs = 4;
    run.with(1, {std::make_shared<Scheduler>(step_lr(2, 0.5), every), rates});
    ASSERT_EQ(rates->first.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_DOUBLE_EQ(rates->first[i], expected[i]) << i;
      EXPECT_DOUBLE_EQ(rates->second[i], expected[i] / 10) << i;
    }
  }
}

// A class of one's own, whose groups go different ways.
struct OnlyTheSecond : torch::optim::LRScheduler {
  using LRScheduler::LRScheduler;
  std::vector<double> get_lrs() override {
    std::vector<double> rates = get_current_lrs();
    rates[1] /= 2;
    return rates;
  }
};

TEST(Schedules, OfOnesOwnMayTreatGroupsApartAndMultiplyWithOthers) {
  std::string alone;
  for (int replicas : {1, 2}) {
    auto rates = std::make_shared<GroupRates>();
    HookedRun run;
    run.fit = {.epochs = 1};
    const auto make = [](torch::optim::Optimizer& optimizer) {
      return std::make_shared<OnlyTheSecond>(optimizer);
    };
    const auto scheduler = std::make_shared<Scheduler>(make, Every::step);
    run.with(replicas, {scheduler, std::make_shared<LearningRateWarmup>(0, 2), rates});
    EXPECT_THAT(rates->first,
                ElementsAre(DoubleEq(0.1), DoubleEq(0.1), DoubleEq(0.1), DoubleEq(0.1)));
    EXPECT_THAT(rates->second,
                ElementsAre(DoubleEq(0.01), DoubleEq(0.005), DoubleEq(0.0025), DoubleEq(0.00125)));
    if (alone.empty()) alone = run.result.weights;
    EXPECT_EQ(run.result.weights, alone);  // every replica's groups have these rates
  }
}

TEST(Schedules, AreWhereTheyWouldBeAfterARestart) {
  ScratchFolder straight, stopped;
  const auto train = [](const ScratchFolder& folder, std::int64_t epochs) {
    HookedRun run;
    run.fit = {.epochs = epochs, .resume = folder.path()};
    return run
        .with(1,
              {std::make_shared<Scheduler>(step_lr(3, 0.5), Every::step),
               std::make_shared<StepSchedule>([](std::int64_t step) { return 1.0 / (1 + step); }),
               std::make_shared<ModelCheckpoint>(folder.path())})
        .result.weights;
  };
  const std::string whole = train(straight, 3);
  train(stopped, 1);
  EXPECT_EQ(train(stopped, 3), whole);
}

TEST(Schedules, WarmUpAndCosineGoBySteps) {
  auto rates = std::make_shared<GroupRates>();
  HookedRun run;
  run.rate = 1;
  run.fit = {.epochs = 2};
  run.with(1, {std::make_shared<WarmupCosine>(WarmupCosineOptions{.warmup_steps = 2, .least = 0.5}),
               rates});
  std::vector<double> expected{0.5, 1};
  for (int step = 2; step < 8; ++step)
    expected.push_back(0.5 + 0.5 * (1 + std::cos(std::numbers::pi * (step - 2) / 6)) / 2);
  ASSERT_EQ(rates->first.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(rates->first[i], expected[i]) << i;
  EXPECT_THAT(message_of<InvalidInput>([] { WarmupCosine({.warmup_steps = 10, .steps = 10}); }),
              HasSubstr("10 steps are no more than the 10 of the warm-up"));
}

TEST(Average, OfWeightsIsWhatTheFormulaSaysAndIsUsedInEvaluations) {
  Context context = job_of(1);
  torch::manual_seed(3);
  SmallNet net;
  struct Follow : Callback {
    void on_after_update(FitState& fit) override {
      const torch::Tensor now = fit.model().parameters()[0].detach();
      average = average.defined() ? 0.75 * average + 0.25 * now : now.clone();
    }
    torch::Tensor average;
  };
  auto follow = std::make_shared<Follow>();
  Trainer trainer(context.strategy(), net, sgd(net), cross_entropy,
                  {.batch_size = 10, .ema = {.decay = 0.75}});
  trainer.fit(small_images(40), {.epochs = 2, .callbacks = {follow}, .progress = false});
  const torch::Tensor weight = net->parameters()[0];
  const torch::Tensor last = weight.detach().clone();
  const Logs averaged = trainer.evaluate(small_images(31, false));
  EXPECT_TRUE(torch::equal(weight, last));
  trainer.apply_average();
  EXPECT_TRUE(torch::allclose(weight, follow->average, 1e-5, 1e-7));
  EXPECT_FALSE(torch::equal(weight, last));
  EXPECT_EQ(trainer.evaluate(small_images(31, false)), averaged);
  context.leave();
}

TEST(Average, HasTheSameBitsForAnyNumberOfReplicasAndAfterARestart) {
  HookedRun run;
  run.options.ema = {.decay = 0.9, .ramp = true};
  run.fit = {.epochs = 2, .validation = small_images(12, false)};
  run.with(1);
  const Logs alone = run.evaluation;
  const auto history = run.result.history;
  for (int replicas : {2, 4}) {
    run.with(replicas);
    EXPECT_EQ(run.evaluation, alone);
    EXPECT_EQ(run.result.history, history);
  }
  ScratchFolder folder;
  for (std::int64_t epochs : {1, 2}) {
    run.fit.epochs = epochs;
    run.fit.resume = folder.path();
    run.with(2, {std::make_shared<ModelCheckpoint>(folder.path())});
  }
  EXPECT_EQ(run.evaluation, alone);
  const auto newest = load_latest(folder.path());
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(newest->tensors.contains("ema.conv.weight"));
  run.options.ema = {};
  run.fit = {.epochs = 2, .validation = small_images(12, false)};
  EXPECT_NE(run.with(1).evaluation, alone);
}

TEST(Average, RefusesADecayThatIsNone) {
  HookedRun run;
  run.options.ema.decay = 1;
  EXPECT_THAT(message_of<InvalidInput>([&] { run.with(1); }), HasSubstr("ema.decay must be"));
}

TEST(TrainedMetrics, HaveTheSameBitsForAnyNumberOfReplicas) {
  HookedRun run;
  run.options.metrics = {accuracy(), f1_score({.classes = 3, .average = Average::macro}),
                         roc_auc({.classes = 3, .bins = 100}), perplexity(),
                         confusion_matrix({.classes = 3, .log_cells = true})};
  run.fit = {.epochs = 2, .validation = small_images(31, false), .validation_batch_size = 4};
  run.with(1);
  const Logs alone = run.evaluation;
  const auto history = run.result.history;
  double cells = 0;
  for (const auto& [name, value] : history.back())
    if (name.starts_with("val_confusion")) cells += value;
  EXPECT_EQ(cells, 31);
  EXPECT_DOUBLE_EQ(history.back().at("perplexity"), std::exp(history.back().at("loss")));
  for (int replicas : {2, 3, 4}) {
    run.with(replicas);
    EXPECT_EQ(run.evaluation, alone);
    EXPECT_EQ(run.result.history, history);
  }
}

// In the middle of an epoch.
TEST(TrainedMetrics, GoOnFromACheckpoint) {
  HookedRun run;
  run.options.metrics = {f1_score({.classes = 3, .average = Average::macro}), perplexity()};
  run.fit = {.epochs = 1};
  const auto history = run.with(1).result.history;
  ScratchFolder folder;
  for (std::int64_t most : {2, 0}) {
    run.fit = {.epochs = 1, .max_steps = most, .resume = folder.path()};
    run.with(2, {std::make_shared<ModelCheckpoint>(folder.path())});
  }
  EXPECT_EQ(run.result.history, history);
  run.options.metrics.push_back(accuracy());
  run.fit = {.epochs = 2, .resume = folder.path()};
  EXPECT_THAT(message_of<InvalidInput>([&] { run.with(1); }),
              HasSubstr("the checkpoint was made with other metrics"));
}

TEST(TrainedMetrics, CanBeWatched) {
  for (const char* name : {"val_f1", "val_top_5_accuracy", "auc", "val_recall", "precision_0"})
    EXPECT_TRUE(larger_is_better(name)) << name;
  for (const char* name : {"val_loss", "mae", "val_perplexity", "confusion_0_1"})
    EXPECT_FALSE(larger_is_better(name)) << name;
  ScratchFolder folder;
  HookedRun run;
  run.rate = 0;  // nothing improves after the first epoch
  run.options.metrics = {f1_score({.classes = 3, .average = Average::macro})};
  run.fit = {.epochs = 9, .validation = small_images(31, false)};
  const Watch watch{.name = "val_f1"};
  run.with(2, {std::make_shared<EarlyStopping>(Watch{.name = "val_f1", .min_delta = 1e-3}, 2),
               std::make_shared<ReduceLearningRateOnPlateau>(PlateauOptions{.watch = watch}),
               std::make_shared<ModelCheckpoint>(folder.path(),
                                                 ModelCheckpointOptions{.watch = watch})});
  EXPECT_THAT(run.result.stopped, HasSubstr("val_f1 has not improved for 2 epochs"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "best.json"));
}

TEST(TrainedMetrics, GiveTensorsToCallbacksAndToThoseWhoEvaluate) {
  struct Look : Callback {
    void on_epoch_end(FitState& fit) override { tensors = fit.tensors; }
    std::map<std::string, torch::Tensor> tensors;
  };
  auto look = std::make_shared<Look>();
  Context context = job_of(2);
  SmallNet net;
  Trainer trainer(context.strategy(), net, sgd(net), cross_entropy,
                  {.batch_size = 10, .metrics = {confusion_matrix({.classes = 3})}});
  trainer.fit(small_images(40),
              {.validation = small_images(12, false), .callbacks = {look}, .progress = false});
  EXPECT_EQ(look->tensors.at("confusion").sum().item<std::int64_t>(), 40);
  EXPECT_EQ(look->tensors.at("val_confusion").sum().item<std::int64_t>(), 12);
  trainer.evaluate(small_images(31, false));
  EXPECT_EQ(trainer.metric_tensors().at("confusion").sum().item<std::int64_t>(), 31);
  context.leave();
}

}  // namespace
}  // namespace cohort::train
