// Steps whose losses are read later, together (FitOptions::read_every): the same results as reading
// each. On the CPU, and on a GPU where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/callback.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;

// What it saw of the losses after the steps that it asks for.
struct Watching : Callback {
  explicit Watching(std::int64_t period) : every(period) {}
  std::int64_t reads_every() const override { return every; }
  void on_step_end(FitState& fit) override {
    if (every > 0 && fit.step % every == 0) seen[fit.step] = fit.logs;
  }
  std::int64_t every;
  std::map<std::int64_t, Logs> seen;
};

struct ReadingRun {
  std::vector<std::string> flags = {"--distribution_strategy=mirrored", "--num_replicas=1"};
  TrainerOptions options = {.batch_size = 8, .virtual_shards = 4, .metrics = {accuracy()}};
  FitOptions fit = {.epochs = 2, .progress = false};
  TrainingStep step = cross_entropy;

  FitResult operator()(std::int64_t read_every) {
    auto context = init(cluster::Environment{}, flags);
    torch::manual_seed(3);
    SmallNet net;
    Trainer trainer(context.strategy(), net, sgd(net), step, options);
    fit.read_every = read_every;
    FitResult result = trainer.fit(small_images(50), fit);
    context.leave();
    return result;
  }
};

std::vector<std::string> replicas(int count) {
  return {"--distribution_strategy=mirrored", "--num_replicas=" + std::to_string(count)};
}

TEST(ReadLater, GivesTheSameWeightsAndHistory) {
  ReadingRun run;
  run.options.clip_norm = 0.5;
  run.options.log_gradient_norm = true;
  run.fit.validation = small_images(31, false);
  run.fit.validate_every = 3;
  const FitResult each = run(1);
  for (const int count : {1, 2}) {
    run.flags = replicas(count);
    for (const int every : {2, 5, 100}) {
      const FitResult later = run(every);
      EXPECT_EQ(later.weights, each.weights) << count << " replicas, every " << every;
      EXPECT_EQ(later.history, each.history) << count << " replicas, every " << every;
      EXPECT_EQ(later.step, each.step);
    }
  }
}

TEST(ReadLater, ACallbackSeesTheStepsThatItAsksFor) {
  ReadingRun run;
  const auto each = std::make_shared<Watching>(1);
  run.fit.callbacks = {each};
  run(50);  // which a callback that looks at every step overrules
  ASSERT_EQ(each->seen.size(), 14u);
  const auto third = std::make_shared<Watching>(3);
  run.fit.callbacks = {third};
  for (const int count : {1, 2}) {
    run.flags = replicas(count);
    third->seen.clear();
    run(50);
    ASSERT_EQ(third->seen.size(), 4u);
    for (const auto& [step, logs] : third->seen) EXPECT_EQ(logs, each->seen.at(step)) << step;
  }
}

TEST(ReadLater, ALossThatIsNotANumberEndsItByItsStep) {
  ReadingRun run;
  int calls = 0;
  run.options.virtual_shards = 1;
  run.step = [&calls](const torch::Tensor& output, const torch::Tensor& target) {
    auto loss = torch::nn::functional::cross_entropy(output, target);
    return ++calls == 3 ? loss * std::numeric_limits<float>::quiet_NaN() : loss;
  };
  EXPECT_THAT(message_of<Error>([&] { run(5); }), HasSubstr("the loss of step 2 is nan"));
}

// Between two reads: the sums that the last checkpoint has are those of all steps.
TEST(ReadLater, AStopInTheMiddleLeavesNoStepOut) {
  struct Stopping : Callback {
    std::int64_t reads_every() const override { return 0; }
    void on_step_end(FitState& fit) override {
      if (fit.step == 4) fit.stop("four are enough");
    }
    void on_train_end(FitState& fit) override { running = fit.running; }
    Logs running;
  };
  ReadingRun run;
  const auto stopping = std::make_shared<Stopping>();
  run.fit.callbacks = {stopping};
  for (const int count : {1, 2}) {
    run.flags = replicas(count);
    EXPECT_EQ(run(1).step, 4);
    const Logs each = stopping->running;
    EXPECT_EQ(run(100).step, 4);
    EXPECT_EQ(stopping->running, each) << count;
  }
}

// Weights that only a device knows are read with each step, so that the update has the right mean.
TEST(ReadLater, LossesWithWeightsOfTheirOwnAreReadAtOnce) {
  ReadingRun run;
  run.options.metrics = {};
  run.step = [](SmallNet& net, const Batch& batch) {
    const auto weights = 1 + batch.target.to(torch::kFloat32);
    const auto losses = torch::nn::functional::cross_entropy(
        net->forward(batch.data), batch.target,
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    return Loss{.mean = (losses * weights).sum() / weights.sum(), .weight = weights.sum()};
  };
  for (const int count : {1, 2}) {
    run.flags = replicas(count);
    const FitResult each = run(1);
    const FitResult later = run(6);
    EXPECT_EQ(later.weights, each.weights) << count;
    EXPECT_EQ(later.history, each.history) << count;
  }
}

TEST(ReadLater, WeightsThatBeginInTheMiddleAreRefused) {
  ReadingRun run;
  run.flags = replicas(2);
  run.options = {.batch_size = 8};
  int calls = 0;
  std::mutex mutex;
  run.step = [&](SmallNet& net, const Batch& batch) {
    const std::lock_guard lock(mutex);
    const auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
    if (++calls <= 4) return Loss{.mean = loss};
    return Loss{.mean = loss, .weight = 3.0};
  };
  EXPECT_THAT(message_of<Error>([&] { run(4); }),
              HasSubstr("have other weights than those before it"));
}

TEST(ReadLater, TheNumberOfStepsMustBePossible) {
  ReadingRun run;
  EXPECT_THAT(message_of<Error>([&] { run(-1); }),
              HasSubstr("read_every must be 0 (automatic) or more steps, got -1"));
}

// --- on a GPU

bool no_gpu() { return !torch::cuda::is_available(); }

ReadingRun on_gpu(CudaGraph graph) {
  ReadingRun run;
  run.flags = {"--distribution_strategy=one_device", "--device=cuda"};
  run.options.virtual_shards = 1;
  run.options.cuda_graph = graph;
  run.fit.epochs = 4;
  return run;
}

// Batch norm, dropout, augmentation, a last batch of another shape.
TEST(GraphedSteps, GiveTheBitsOfStepsThatAreNot) {
  if (no_gpu()) GTEST_SKIP() << "no GPU here";
  for (const int shards : {1, 2}) {
    ReadingRun without = on_gpu(CudaGraph::off);
    without.options.virtual_shards = shards;
    const FitResult expected = without(1);
    for (const int every : {1, 5}) {
      // Several shards of one replica are computed one kernel at a time.
      ReadingRun run = on_gpu(shards == 1 ? CudaGraph::on : CudaGraph::automatic);
      run.options.virtual_shards = shards;
      const FitResult result = run(every);
      EXPECT_EQ(result.weights, expected.weights) << shards << " shards, every " << every;
      EXPECT_EQ(result.history, expected.history) << shards << " shards, every " << every;
    }
  }
}

TEST(GraphedSteps, AreTheSameEveryTime) {
  if (no_gpu()) GTEST_SKIP() << "no GPU here";
  ReadingRun run = on_gpu(CudaGraph::on);
  const FitResult first = run(0);
  EXPECT_EQ(run(0).weights, first.weights);
}

TEST(GraphedSteps, AMetricThatIsAlwaysZeroIsRecordedToo) {
  if (no_gpu()) GTEST_SKIP() << "no GPU here";
  ReadingRun run = on_gpu(CudaGraph::on);
  run.options.metrics = {Metric{"none", [](const torch::Tensor& output, const torch::Tensor&) {
                                  return torch::zeros({}, output.options());
                                }}};
  EXPECT_GT(run(0).step, 4);
}

TEST(GraphedSteps, StateThatACallbackReplacesIsRecordedAnew) {
  if (no_gpu()) GTEST_SKIP() << "no GPU here";
  struct Restarting : Callback {
    void on_step_end(FitState& fit) override {
      if (fit.step == 10) fit.optimizer().state().clear();
    }
  };
  ReadingRun run = on_gpu(CudaGraph::on), without = on_gpu(CudaGraph::off);
  run.fit.callbacks = without.fit.callbacks = {std::make_shared<Restarting>()};
  EXPECT_EQ(run(0).weights, without(0).weights);
}

// Generator and allocator are as before where a recording was broken off: the model has dropout.
TEST(GraphedSteps, AStepThatReadsTheDeviceIsComputedAsItIs) {
  if (no_gpu()) GTEST_SKIP() << "no GPU here";
  const LossFunction reads = [](const torch::Tensor& output, const torch::Tensor& target) {
    auto loss = torch::nn::functional::cross_entropy(output, target);
    return loss.item<double>() > 0 ? loss : loss * 2;  // not possible in a graph
  };
  ReadingRun run = on_gpu(CudaGraph::automatic);
  run.step = reads;
  ReadingRun without = on_gpu(CudaGraph::off);
  without.step = reads;
  EXPECT_EQ(run(0).weights, without(0).weights);
  ReadingRun demanded = on_gpu(CudaGraph::on);
  demanded.step = reads;
  EXPECT_THAT(message_of<Error>([&] { demanded(0); }), HasSubstr("cuda_graph is on, but"));
}

}  // namespace
}  // namespace cohort::train
