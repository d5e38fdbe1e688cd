// What a Trainer refuses, each with a sentence that names both sides.
#include "cohort/train/options/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/strategies/worker_threads_test.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace testing;

std::shared_ptr<torch::optim::Optimizer> sgd_of(const torch::nn::Module& module) {
  return std::make_shared<torch::optim::SGD>(module.parameters(), 0.05);
}

// What a Trainer says that is given these.
struct Attempt {
  TrainerOptions options = {.batch_size = 8};
  TrainingStep loss = cross_entropy;
  FitOptions fit = {};
  DatasetPtr data = small_images(24, false);

  std::string refusal() const {
    Context context = job_of(1);
    PlainNet net;
    const std::string text = message_of<InvalidInput>([&] {
      FitOptions silent = fit;
      silent.progress = false;
      Trainer(context.strategy(), net, sgd_of(*net), loss, options).fit(data, silent);
    });
    context.leave();
    return text;
  }
};

TEST(TrainerChecks, AnOptimizerOverOtherParametersIsRefused) {
  Context context = job_of(1);
  PlainNet net, other;
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { Trainer(context.strategy(), net, sgd_of(*other), cross_entropy); }),
              AllOf(HasSubstr("6 of the optimizer's 6 parameters are not of the model"),
                    HasSubstr("net->parameters()")));
  context.leave();
}

TEST(TrainerChecks, MetricsNeedNamesOfTheirOwn) {
  const auto named = [](const std::string& name) {
    Metric metric = accuracy();
    metric.name = name;
    return metric;
  };
  EXPECT_THAT(Attempt({.options = {.batch_size = 8, .metrics = {named("loss")}}}).refusal(),
              HasSubstr("metric 'loss' has a name that the Trainer uses itself"));
  EXPECT_THAT(
      Attempt({.options = {.batch_size = 8, .metrics = {named("a"), named("a")}}}).refusal(),
      HasSubstr("two metrics are called 'a'"));
}

TEST(TrainerChecks, AMetricIsASumOverSamples) {
  const Metric mean{"mean", [](const torch::Tensor& output, const torch::Tensor& target) {
                      return torch::nll_loss(torch::log_softmax(output, 1), target);
                    }};
  EXPECT_THAT(Attempt({.options = {.batch_size = 8, .metrics = {mean}}}).refusal(),
              AllOf(HasSubstr("metric 'mean' is no sum over samples: 8 samples give"),
                    HasSubstr("not their mean")));
  const Metric each{"each", [](const torch::Tensor& output, const torch::Tensor& target) {
                      return output.argmax(1).eq(target);
                    }};
  EXPECT_THAT(Attempt({.options = {.batch_size = 8, .metrics = {each}}}).refusal(),
              HasSubstr("metric 'each' gave a tensor of shape [8], not one number"));
}

TEST(TrainerChecks, ALossIsOneNumber) {
  const LossFunction vector = [](const torch::Tensor& output, const torch::Tensor& target) {
    return torch::nll_loss(torch::log_softmax(output, 1), target, {}, at::Reduction::None);
  };
  EXPECT_THAT(Attempt({.loss = vector}).refusal(),
              AllOf(HasSubstr("the loss is a tensor of shape [8]"), HasSubstr("loss.mean()")));
}

TEST(TrainerChecks, AnEmptyValidationSetIsRefused) {
  const auto none =
      std::make_shared<TensorDataset>(torch::empty({0, 1, 8, 8}), torch::empty({0}, torch::kInt64));
  EXPECT_THAT(Attempt({.fit = {.validation = none}}).refusal(),
              HasSubstr("the validation data set has no samples"));
  EXPECT_THAT(Attempt({.fit = {.validate_every = 2}}).refusal(),
              HasSubstr("validate_every is 2, but there is no validation data"));
}

TEST(TrainerChecks, ReadingAheadHasLimits) {
  EXPECT_THAT(Attempt({.fit = {.prefetch = 0}}).refusal(),
              HasSubstr("prefetch must be at least 1, got 0"));
  EXPECT_THAT(Attempt({.fit = {.loader_threads = -1}}).refusal(),
              HasSubstr("loader_threads must be 0 to 256, got -1"));
  EXPECT_THAT(Attempt({.fit = {.loader_threads = 257}}).refusal(),
              HasSubstr("loader_threads must be 0 to 256, got 257"));
}

TEST(TrainerChecks, OptionsOfAGpuHaveLimits) {
  EXPECT_THAT(Attempt({.fit = {.device_cache_bytes = -1}}).refusal(),
              HasSubstr("device_cache_bytes must be 0 (never) or more, got -1"));
  EXPECT_EQ(parse_cuda_graph("auto"), CudaGraph::automatic);
  EXPECT_EQ(parse_cuda_graph("off"), CudaGraph::off);
  EXPECT_EQ(parse_cuda_graph("on"), CudaGraph::on);
  EXPECT_THAT(message_of<InvalidInput>([] { parse_cuda_graph("yes"); }),
              HasSubstr("cuda_graph must be auto, off or on, got 'yes'"));
}

TEST(TrainerChecks, ADataSetGivesAsManyRowsAsAreAsked) {
  struct OneShort : Dataset {
    std::int64_t size() const override { return inner->size(); }
    Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
      Batch batch = inner->get(indices, key);
      if (indices.size() == 8) batch.data = batch.data.slice(0, 1);
      return batch;
    }
    DatasetPtr inner = small_images(24, false);
  };
  EXPECT_THAT(Attempt({.data = std::make_shared<OneShort>()}).refusal(),
              HasSubstr("was asked for 8 samples and gave 7 rows of data and 8 of targets"));
}

TEST(TrainerChecks, TwoModelCheckpointsNeedTwoFolders) {
  ScratchFolder folder;
  const auto checkpoints = [&](const std::string& name) {
    return std::make_shared<ModelCheckpoint>(folder.path() / name);
  };
  EXPECT_THAT(Attempt({.fit = {.callbacks = {checkpoints("a"), checkpoints("b/../a")}}}).refusal(),
              HasSubstr("two ModelCheckpoints write to"));
}

TEST(TrainerChecks, AResumedFileMustExist) {
  ScratchFolder folder;
  const std::string missing = (folder.path() / "step-00000007.json").string();
  EXPECT_THAT(Attempt({.fit = {.resume = missing}}).refusal(), HasSubstr("step-00000007.json"));
  EXPECT_THAT(Attempt({.fit = {.resume = "weights.safetensors"}}).refusal(),
              AllOf(HasSubstr("is no checkpoint"), HasSubstr("load_weights")));
}

// What each of two workers says whose data is made by `data_of`.
std::vector<std::string> refusals_of_two(const std::function<DatasetPtr(int)>& data_of,
                                         bool as_validation = false) {
  return parallel::WorkerThreads().run(2, {}, [&](Context& context) {
    PlainNet net;
    Trainer trainer(context.strategy(), net, sgd_of(*net), cross_entropy, {.batch_size = 8});
    const DatasetPtr own = data_of(context.rank());
    trainer.fit(as_validation ? small_images(24, false) : own,
                {.validation = as_validation ? own : nullptr, .progress = false});
  });
}

TEST(TrainerChecks, DataSetsOfDifferentSizesAreRefused) {
  EXPECT_THAT(refusals_of_two([](int rank) { return small_images(300 + rank, false); }),
              Each(AllOf(HasSubstr("training data is"), HasSubstr("300"), HasSubstr("301"),
                         HasSubstr("the whole data set"))));
  EXPECT_THAT(refusals_of_two([](int rank) { return small_images(30 + rank, false); }, true),
              Each(HasSubstr("validation data is")));
}

TEST(TrainerChecks, ADataSetThatWasShardedForThisRankIsRefused) {
  EXPECT_THAT(refusals_of_two([](int rank) { return shard(small_images(48, false), 2, rank); }),
              Each(AllOf(HasSubstr("training data is"), HasSubstr("checksum"),
                         HasSubstr("a Trainer splits every batch itself"))));
}

TEST(TrainerChecks, TheSameDataIsAccepted) {
  EXPECT_THAT(refusals_of_two([](int) { return small_images(24); }), Each(""));
}

TEST(TrainerChecks, AMissingWorkersCallIsNamed) {
  const auto texts = parallel::WorkerThreads().run(2, {}, [](Context& context) {
    PlainNet net;
    Trainer trainer(context.strategy(), net, sgd_of(*net), cross_entropy, {.batch_size = 8});
    if (context.rank() == 0) throw InvalidInput("rank 0 has enough");
    trainer.evaluate(small_images(24, false));
  });
  EXPECT_THAT(texts[0], HasSubstr("rank 0 has enough"));
  EXPECT_THAT(texts[1], HasSubstr("evaluate(), which every worker must call"));
}

}  // namespace
}  // namespace cohort::train
