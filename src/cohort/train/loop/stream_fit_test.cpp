// Trainer::fit() over an IterableDataset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/data/image_stream_test.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

FitResult fit_stream(int replicas, SourcePtr data, FitOptions fit = {}) {
  Context context = testing::job_of(replicas);
  torch::manual_seed(3);
  testing::SmallNet net;
  fit.epochs = 2;
  fit.progress = false;
  return Trainer(context.strategy(), net, testing::sgd(net), cross_entropy,
                 {.batch_size = 16, .virtual_shards = 4})
      .fit(std::move(data), fit);
}

SourcePtr image_stream() {
  return std::make_shared<testing::StreamOf>(testing::small_images(50, false));
}

TEST(StreamFit, TheStreamsOrderIsTheTrainings) {
  const auto images = testing::small_images(50, false);
  const auto at = [&](std::int64_t epoch) {  // the samples of that epoch, in memory
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 50; ++i) order.push_back((i + 7 * epoch) % 50);
    return std::make_shared<Subset>(images, order);
  };
  EXPECT_EQ(fit_stream(1, image_stream(), {.max_steps = 4}).weights,
            fit_stream(1, at(0), {.max_steps = 4, .shuffle = false}).weights);
  EXPECT_NE(fit_stream(1, image_stream()).weights,
            fit_stream(1, at(0), {.shuffle = false}).weights);  // epoch 1 has an order of its own
}

TEST(StreamFit, TheSameBitsWithAnyNumberOfReplicas) {
  const FitResult alone = fit_stream(1, image_stream());
  EXPECT_EQ(alone.step, 8);
  for (const int replicas : {2, 3})
    EXPECT_EQ(fit_stream(replicas, image_stream()).weights, alone.weights);
}

TEST(StreamFit, AResumedTrainingGoesOnInTheMiddleOfTheStream) {
  const FitResult whole = fit_stream(1, image_stream());
  for (const std::int64_t steps : {2, 4, 7}) {
    ScratchFolder folder;
    const auto checkpoints = std::make_shared<ModelCheckpoint>(folder.path());
    fit_stream(1, image_stream(), {.max_steps = steps, .callbacks = {checkpoints}});
    const FitResult resumed = fit_stream(2, image_stream(), {.resume = folder.path()});
    EXPECT_EQ(resumed.weights, whole.weights);
    EXPECT_EQ(resumed.step, whole.step);
  }
}

TEST(StreamFit, AStreamThatEndsEarlyIsNamed) {
  EXPECT_THAT(
      message_of<InvalidInput>([] {
        fit_stream(1, std::make_shared<testing::StreamOf>(testing::small_images(40, false), 50));
      }),
      ::testing::HasSubstr("the stream of epoch 0 ended after 40 samples, an epoch has 50"));
}

}  // namespace
}  // namespace cohort::train
