#include "cohort/train/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/checkpoint_files.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/put_file_test.h"
#include "cohort/train/checkpoint/small_model_test.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Checkpoint tiny(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  checkpoint.tensors = {{"model.a", torch::full({5}, static_cast<float>(step))},
                        {"model.b", torch::arange(3)}};
  return checkpoint;
}

std::string refusal_of(const fs::path& path) {
  return message_of<InvalidInput>([&] { load_checkpoint(path); });
}

TEST(Checkpoint, AResumedTrainingHasTheBitsOfOneThatNeverStopped) {
  ScratchFolder folder;
  auto model = make_model();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  for (int step = 0; step < 3; ++step) train_step(model, optimizer, step);
  Checkpoint checkpoint;
  checkpoint.state.step = 3;
  checkpoint.state.samples_in_epoch = 18;
  checkpoint.state.callbacks["plateau"] = {{"best", 0.1}};
  add_module(checkpoint, "model", *model);
  add_optimizer(checkpoint, "optimizer", optimizer, ParameterNames(*model));
  const auto path = write_checkpoint(folder.path(), checkpoint);
  EXPECT_EQ(path.filename(), "step-00000003.json");

  auto resumed = make_model(7);
  torch::optim::AdamW fresh(resumed->parameters(), torch::optim::AdamWOptions(0.5));
  const auto loaded = load_latest(folder.path());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->state.samples_in_epoch, 18);
  EXPECT_EQ(loaded->state.callbacks["plateau"]["best"], 0.1);
  EXPECT_EQ(loaded->state.libtorch_version, TORCH_VERSION);
  restore_module(*loaded, "model", *resumed);
  restore_optimizer(*loaded, "optimizer", fresh, ParameterNames(*resumed));
  for (int step = 3; step < 6; ++step) {
    train_step(model, optimizer, step);
    train_step(resumed, fresh, step);
  }
  EXPECT_EQ(fingerprint(*resumed), fingerprint(*model));
}

TEST(Checkpoint, PartsKeepApart) {
  Checkpoint checkpoint;
  auto model = make_model();
  add_module(checkpoint, "generator", *model);
  add_module(checkpoint, "critic", *model);
  EXPECT_THROW(add_module(checkpoint, "critic", *model), InvalidInput);
  EXPECT_THROW(add_module(checkpoint, "a.b", *model), InvalidInput);
  restore_module(checkpoint, "critic", *model);
  EXPECT_THAT(message_of<InvalidInput>([&] { restore_module(checkpoint, "model", *model); }),
              HasSubstr("'conv.weight' is missing"));
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { restore_optimizer(checkpoint, "optimizer", sgd, ParameterNames(*model)); }),
              HasSubstr("no optimizer 'optimizer'"));
}

TEST(Checkpoint, AFolderWithoutAnyGivesNothing) {
  ScratchFolder folder;
  EXPECT_FALSE(load_latest(folder.path()));
  EXPECT_FALSE(find_latest(folder / "none"));
  put(folder / "step-00000001.json", "{}");
  EXPECT_FALSE(load_latest(folder.path()));
}

TEST(Checkpoint, TensorsCutAnywhereAreRefusedAndTheOneBeforeIsUsed) {
  ScratchFolder folder;
  write_checkpoint(folder.path(), tiny(1));
  write_checkpoint(folder.path(), tiny(2));
  const auto tensors = folder / "step-00000002.safetensors";
  const auto bytes = read_file(tensors);
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    put(tensors, bytes.substr(0, size));
    EXPECT_THAT(refusal_of(checkpoint_path(folder.path(), 2)), HasSubstr("bytes"));
    ASSERT_TRUE(find_latest(folder.path()));
    EXPECT_EQ(find_latest(folder.path())->filename(), "step-00000001.json");
    EXPECT_EQ(load_latest(folder.path())->state.step, 1);
  }
  fs::remove(tensors);
  EXPECT_THAT(refusal_of(checkpoint_path(folder.path(), 2)), HasSubstr("is missing"));
  EXPECT_EQ(load_latest(folder.path())->state.step, 1);
}

TEST(Checkpoint, AFlippedByteAnywhereIsRefusedAndTheOneBeforeIsUsed) {
  ScratchFolder folder;
  write_checkpoint(folder.path(), tiny(1));
  write_checkpoint(folder.path(), tiny(2));
  for (const auto& path : {folder / "step-00000002.safetensors", folder / "step-00000002.json"}) {
    const auto bytes = read_file(path);
    for (std::size_t at = 0; at < bytes.size(); at += 7) {
      auto damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      put(path, damaged);
      const auto found = find_latest(folder.path());
      ASSERT_TRUE(found);
      if (std::isspace(bytes[at]) && path.extension() == ".json") continue;
      EXPECT_EQ(found->filename(), "step-00000001.json") << path << " at " << at;
      EXPECT_EQ(load_latest(folder.path())->state.step, 1);
    }
    put(path, bytes);
  }
  EXPECT_EQ(load_latest(folder.path())->state.step, 2);
}

TEST(Checkpoint, ForeignRenamedAndNewerFilesAreRefusedWithTheReason) {
  ScratchFolder folder;
  const auto path = write_checkpoint(folder.path(), tiny(1));
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("is a folder"));
  EXPECT_THAT(refusal_of(folder / "none.json"), HasSubstr("no such file"));
  EXPECT_THAT(refusal_of(folder / "step-00000001.safetensors"), HasSubstr("not JSON"));
  auto content = read_sealed(path);
  content["tensors"]["file"] = "../../etc/passwd";
  put(folder / "x.json", seal(content));
  EXPECT_THAT(refusal_of(folder / "x.json"), HasSubstr("outside its folder"));
  content["version"] = 2;
  put(folder / "x.json", seal(content));
  EXPECT_THAT(refusal_of(folder / "x.json"), HasSubstr("version 2 of the format"));
  content["format"] = "other";
  put(folder / "x.json", seal(content));
  EXPECT_THAT(refusal_of(folder / "x.json"), HasSubstr("not written by Cohort"));
  fs::copy(path, folder / "step-00000009.json");
  EXPECT_EQ(load_latest(folder.path())->state.step, 1);
}

TEST(Checkpoint, AStepSavedAgainReplacesTheFirstInOneStep) {
  ScratchFolder folder;
  write_checkpoint(folder.path(), tiny(4));
  auto again = tiny(4);
  again.tensors["model.a"] = torch::zeros({2});
  write_checkpoint(folder.path(), again);
  EXPECT_EQ(load_latest(folder.path())->tensors.at("model.a").numel(), 2);
  EXPECT_FALSE(fs::exists(folder / "step-00000004.safetensors"));
  write_checkpoint(folder.path(), again);
  EXPECT_TRUE(fs::exists(folder / "step-00000004.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "step-00000004-2.safetensors"));
}

}  // namespace
}  // namespace cohort::train
