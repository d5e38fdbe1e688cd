#include "cohort/train/checkpoint/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/data/data_loader.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/model/precision.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A loop of one's own, whole: what a program would write.
struct Loop {
  explicit Loop(collective::Group& given, const std::filesystem::path& folder)
      : group(given),
        net(given, torch::nn::Linear(3, 2), {.virtual_shards = 4}),
        adam(net->parameters(), torch::optim::AdamWOptions(0.01)),
        loader(given, samples(), {.batch_size = 10, .virtual_shards = 4, .seed = 2}),
        checkpoints(given, folder) {
    checkpoints.register_module("model", net);
    checkpoints.register_optimizer("optimizer", adam);
    checkpoints.register_state("loader", loader);
    checkpoints.register_state("scaler", scaler);
    checkpoints.register_value("note", note);
  }
  static DatasetPtr samples() {
    const auto x = torch::arange(102, torch::kFloat).view({34, 3}).sin();
    return std::make_shared<TensorDataset>(x, torch::arange(34, torch::kLong).remainder(2));
  }
  // Up to step `last`, with a checkpoint after step `save_at`.
  std::string train(std::int64_t from, std::int64_t last, std::int64_t save_at = 0) {
    for (std::int64_t step = from; step < last;) {
      for (const auto& batch : loader.steps()) {
        adam.zero_grad();
        net.backward(batch, [&](const Batch& part) {
          return torch::cross_entropy_loss(torch::dropout(net(part.data), 0.2, true), part.target);
        });
        scaler.step(adam);
        scaler.update();
        ++step;
        if (step == save_at) {
          note = "saved";
          checkpoints.save(step);
        }
        if (step == last) break;
      }
    }
    return fingerprint(*net);
  }

  collective::Group& group;
  parallel::DDP<torch::nn::Linear> net;
  torch::optim::AdamW adam;
  DataLoader<> loader;
  GradScaler scaler{Precision::f32};
  std::string note;
  Checkpoints checkpoints;
};

TEST(Checkpoints, ALoopGoesOnInTheMiddleOfAnEpochWithTheSameBits) {
  const ScratchFolder folder;
  std::string expected;
  parallel::on_ranks(2, [&](collective::Group& group) {
    Loop loop(group, folder.path());
    EXPECT_EQ(loop.checkpoints.restore(), 0);
    const std::string bits = loop.train(0, 11, /*save_at=*/6);  // an epoch has 4 steps
    if (group.rank() == 0) expected = bits;
  });
  for (const int ranks : {1, 2, 3})
    parallel::on_ranks(ranks, [&](collective::Group& group) {
      Loop loop(group, group.rank() == 0 ? folder.path() : "/nowhere");  // rank 0's alone
      EXPECT_EQ(loop.checkpoints.restore(), 6);
      EXPECT_EQ(loop.note, "saved");
      EXPECT_EQ(loop.loader.epoch(), 1);
      EXPECT_EQ(loop.loader.step(), 2);
      EXPECT_EQ(loop.net.steps(), 6);
      EXPECT_EQ(loop.train(6, 11), expected) << ranks;
    });
}

TEST(Checkpoints, TheModulesPartIsThatOfATrainer) {
  const ScratchFolder folder;
  parallel::on_ranks(1, [&](collective::Group& group) {
    Loop loop(group, folder.path());
    loop.train(0, 2, 2);
    loop.checkpoints.close();
    torch::nn::Linear other(3, 2);
    restore_module(*load_latest(folder.path()), "model", *other);
    EXPECT_EQ(fingerprint(*other), fingerprint(*loop.net));
  });
}

TEST(Checkpoints, WhatDoesNotFitIsSaidOnEveryRank) {
  const ScratchFolder folder;
  parallel::on_ranks(2, [&](collective::Group& group) {
    {
      Loop loop(group, folder.path());
      loop.train(0, 1, 1);
    }
    torch::nn::Linear other(5, 2);
    Checkpoints checkpoints(group, folder.path());
    checkpoints.register_module("model", *other);
    EXPECT_THAT(message_of<InvalidInput>([&] { checkpoints.restore(); }),
                AllOf(HasSubstr("can be restored"), HasSubstr("weight")));
    Checkpoints more(group, folder.path());
    int value = 0;
    more.register_value("unheard_of", value);
    EXPECT_THAT(message_of<InvalidInput>([&] { more.restore(); }), HasSubstr("unheard_of"));
  });
}

TEST(Checkpoints, RefusesNamesThatCannotBe) {
  const auto group = collective::make_group_of_one();
  torch::nn::Linear net(1, 1);
  const ScratchFolder folder;
  std::ofstream(folder.path() / "file") << "not a folder";
  Checkpoints checkpoints(*group, folder.path() / "file");
  checkpoints.register_module("model", *net);
  EXPECT_THAT(message_of<InvalidInput>([&] { checkpoints.register_module("model", *net); }),
              HasSubstr("'model' already"));
  EXPECT_THAT(message_of<InvalidInput>([&] { checkpoints.register_module("a.b", *net); }),
              HasSubstr("without a dot"));
  EXPECT_THAT(message_of<InvalidInput>([&] { checkpoints.save(0); }), HasSubstr("step 0"));
  EXPECT_THROW(checkpoints.save(1), SystemError);
}

}  // namespace
}  // namespace cohort::train
