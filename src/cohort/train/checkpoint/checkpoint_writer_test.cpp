#include "cohort/train/checkpoint/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/checkpoint_files.h"
#include "cohort/train/checkpoint/put_file_test.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Checkpoint sized(std::int64_t step, std::int64_t elements) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  checkpoint.tensors = {{"w", torch::full({elements}, static_cast<float>(step))}};
  return checkpoint;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& listed : list_checkpoints(folder)) steps.push_back(listed.step);
  return steps;
}

// A small file system of its own, for as long as it lives.
class Tmpfs {
 public:
  Tmpfs(const fs::path& path, unsigned long flags) : path_(path) {
    fs::create_directories(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", flags, "size=1m") == 0;
  }
  ~Tmpfs() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

TEST(CheckpointWriter, WhatChangesAfterSaveIsNotInTheCheckpoint) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder / "a/b"});
  auto checkpoint = sized(1, 1'000'000);
  writer.save(checkpoint);
  checkpoint.tensors["w"].fill_(-1);
  writer.close();
  EXPECT_EQ(load_latest(folder / "a/b")->tensors["w"].min().item<float>(), 1);
}

TEST(CheckpointWriter, TheLastOnesAndTheBestAreKept) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder.path(), .keep_last = 2});
  for (int step = 1; step <= 5; ++step) {
    SaveOptions options;
    if (step == 2) options.best = SaveOptions::Best{"val_loss", 0.5};
    writer.save(sized(step, 10), options);
  }
  writer.close();
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{5, 4, 2}));
  EXPECT_EQ(find_best(folder.path())->step, 2);
  EXPECT_EQ(load_checkpoint(checkpoint_path(folder.path(), 2)).state.step, 2);
}

TEST(CheckpointWriter, AnOlderStepDoesNotPushOutALaterOneNorItself) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder.path(), .keep_last = 1});
  for (int step : {10, 3, 4}) writer.save(sized(step, 10));
  writer.close();
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{10, 4}));
}

TEST(CheckpointWriter, OneFolderHasOneWriter) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder.path()});
  EXPECT_THAT(message_of<InvalidInput>([&] { CheckpointWriter({.folder = folder.path()}); }),
              AllOf(HasSubstr("another run"), HasSubstr(folder.path().string())));
  writer.close();
  CheckpointWriter next({.folder = folder.path()});
}

TEST(CheckpointWriter, AStartClearsWhatAKilledRunLeft) {
  ScratchFolder folder;
  put(folder / "step-00000007.safetensors.tmp", "half");
  put(folder / "step-00000006.safetensors", "never committed");
  CheckpointWriter writer({.folder = folder.path()});
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::ElementsAre(".lock"));
}

TEST(CheckpointWriter, WhatCannotBeSavedIsRefusedAtOnce) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder.path()});
  auto checkpoint = sized(1, 2);
  checkpoint.tensors["z"] = torch::zeros({1}, torch::kComplexDouble);
  EXPECT_THAT(message_of<InvalidInput>([&] { writer.save(checkpoint); }), HasSubstr("'z'"));
  checkpoint = sized(1, 2);
  checkpoint.state.extra["loss"] = NAN;
  EXPECT_THAT(message_of<InvalidInput>([&] { writer.save(checkpoint); }), HasSubstr("extra.loss"));
  EXPECT_THROW(writer.save(sized(1, 2), {.best = SaveOptions::Best{"loss", NAN}}), InvalidInput);
}

TEST(CheckpointWriter, AFailureInTheBackgroundIsThrownByTheNextCallWithThePath) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder / "gone"});
  fs::remove_all(folder / "gone");
  writer.save(sized(1, 10));
  EXPECT_THAT(message_of<SystemError>([&] { writer.save(sized(2, 10)); }),
              HasSubstr("gone/step-00000001.safetensors"));
  fs::create_directories(folder / "gone");
  writer.save(sized(3, 10));
  writer.close();
  EXPECT_EQ(steps_in(folder / "gone"), (std::vector<std::int64_t>{3}));
}

TEST(CheckpointWriter, AFullDiskIsReportedAndTheLastCheckpointStaysWhole) {
  ScratchFolder folder;
  Tmpfs disk(folder / "disk", 0);
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a file system";
  CheckpointWriter writer({.folder = folder / "disk"});
  writer.save(sized(1, 100'000));
  writer.save(sized(2, 200'000));
  EXPECT_THAT(message_of<SystemError>([&] { writer.close(); }),
              AllOf(HasSubstr("step-00000002"), HasSubstr("No space left"), HasSubstr("Free")));
  EXPECT_EQ(load_latest(folder / "disk")->state.step, 1);
  EXPECT_FALSE(fs::exists(folder / "disk/step-00000002.safetensors.tmp"));
}

TEST(CheckpointWriter, AReadOnlyFolderIsRefusedAtTheStart) {
  ScratchFolder folder;
  Tmpfs disk(folder / "disk", MS_RDONLY);
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a file system";
  EXPECT_THAT(message_of<SystemError>([&] { CheckpointWriter({.folder = folder / "disk"}); }),
              AllOf(HasSubstr("/disk'"), HasSubstr("Read-only")));
}

TEST(CheckpointWriter, DestroyedAtWorkItLeavesTheLastCheckpointAndNoTemporaryFile) {
  ScratchFolder folder;
  {
    CheckpointWriter writer({.folder = folder.path()});
    writer.save(sized(1, 10));
    writer.save(sized(2, 20'000'000));
  }
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".tmp");
  EXPECT_GE(load_latest(folder.path())->state.step, 1);
}

// Prints what a save costs the thread that trains; docs/checkpoints.md quotes it.
TEST(CheckpointWriter, SaveHoldsTrainingUpOnlyForTheCopy) {
  ScratchFolder folder;
  CheckpointWriter writer({.folder = folder.path()});
  const auto checkpoint = sized(1, 20'000'000);
  double copied = 0;
  for (int round = 0; round < 3; ++round) {
    copied = std::chrono::duration<double, std::milli>(writer.save(checkpoint).copied).count();
    const auto began = std::chrono::steady_clock::now();
    writer.flush();
    const std::chrono::duration<double, std::milli> wrote =
        std::chrono::steady_clock::now() - began;
    std::printf("80 MB: save() %.1f ms, then %.1f ms in the background\n", copied, wrote.count());
  }
  writer.close();
  EXPECT_LT(copied, 2'000);
}

}  // namespace
}  // namespace cohort::train
