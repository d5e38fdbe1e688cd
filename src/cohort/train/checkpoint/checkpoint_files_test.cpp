#include "cohort/train/checkpoint/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/durable_file.h"
#include "cohort/train/checkpoint/put_file_test.h"
#include "cohort/train/checkpoint/training_state.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void put_checkpoint(const ScratchFolder& folder, std::int64_t step) {
  const auto tensors = checkpoint_stem(step) + ".safetensors";
  put(folder / tensors, "tensors");
  put(checkpoint_path(folder.path(), step), seal({{"tensors", {{"file", tensors}}}}));
}

TEST(DurableFile, AppearsWholeWhenCommittedAndNotAtAllOtherwise) {
  ScratchFolder folder;
  {
    DurableFile file(folder / "a");
    file.write("half");
    EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"a.tmp"}));
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
  write_durably(folder / "a", "old");
  write_durably(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"a"}));
}

TEST(DurableFile, AFolderThatIsNotThereIsNamed) {
  ScratchFolder folder;
  EXPECT_THAT(message_of<SystemError>([&] { write_durably(folder / "no/x.json", "x"); }),
              AllOf(HasSubstr("no/x.json"), HasSubstr("Choose a folder")));
}

TEST(Seal, EveryChangedByteIsFoundOrChangesNothing) {
  const nlohmann::json content = {{"step", 12}, {"lr", 0.1}, {"config", {{"name", "x"}}}};
  const std::string text = seal(content);
  EXPECT_EQ(unseal(text, "x"), content);
  for (std::size_t at = 0; at < text.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      try {
        EXPECT_EQ(unseal(damaged, "x"), content) << damaged;
      } catch (const InvalidInput&) {
      }
    }
  for (std::size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_THROW(unseal(text.substr(0, size), "x"), InvalidInput) << size;
}

TEST(Seal, AForeignFileIsCalledForeign) {
  for (const char* text : {"{}", "[1]", "3", R"({"checkpoint": 1, "sha256": 2})"})
    EXPECT_THAT(message_of<InvalidInput>([&] { unseal(text, "y.json"); }),
                AllOf(HasSubstr("y.json"), HasSubstr("not written by Cohort")));
}

TEST(CheckpointFiles, AreListedByStepAndOthersAreIgnored) {
  ScratchFolder folder;
  for (std::int64_t step : {7L, 123'456'789'012, 30L}) put_checkpoint(folder, step);
  put(folder / "step-7.json", "{}");
  put(folder / "step-00000009-2.json", "{}");
  put(folder / "notes.json", "{}");
  std::vector<std::int64_t> steps;
  for (const auto& listed : list_checkpoints(folder.path())) steps.push_back(listed.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{123'456'789'012, 30, 7}));
  EXPECT_TRUE(list_checkpoints(folder / "none").empty());
}

TEST(CheckpointFiles, LeftoversGoAndEverythingElseStays) {
  ScratchFolder folder;
  put_checkpoint(folder, 1);
  put_checkpoint(folder, 2);
  put(folder / "step-00000001-2.safetensors", "replaced, or not committed");
  put(folder / "step-00000003.safetensors", "not committed");
  put(folder / "step-00000004.safetensors.tmp", "half");
  put(folder / "step-00000004.json.tmp", "half");
  put(folder / "best.json.tmp", "half");
  put(folder / "step-00000005.json", "damaged: which tensors are its own is not known");
  put(folder / "step-00000005.safetensors", "?");
  put(folder / "mine.safetensors", "the user's");
  put(folder / "mine.tmp", "the user's");
  EXPECT_EQ(remove_leftovers(folder.path()).size(), 5u);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"step-00000001.json", "step-00000001.safetensors",
                                   "step-00000002.json", "step-00000002.safetensors",
                                   "step-00000005.json", "step-00000005.safetensors",
                                   "mine.safetensors", "mine.tmp"}));
}

TEST(CheckpointFiles, TheLastOnesAndTheBestAreKept) {
  ScratchFolder folder;
  for (int step = 1; step <= 6; ++step) put_checkpoint(folder, step);
  mark_best(folder.path(), {.step = 2, .metric = "val_loss", .value = 0.25});
  remove_old(folder.path(), 5, 2);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"best.json", "step-00000002.json", "step-00000002.safetensors",
                                   "step-00000004.json", "step-00000004.safetensors",
                                   "step-00000005.json", "step-00000005.safetensors",
                                   "step-00000006.json", "step-00000006.safetensors"}));
  EXPECT_EQ(find_best(folder.path())->value, 0.25);
}

TEST(CheckpointFiles, NothingIsRemovedWhileTheBestIsNotKnown) {
  ScratchFolder folder;
  for (int step = 1; step <= 3; ++step) put_checkpoint(folder, step);
  put(folder / "best.json", "{");
  remove_old(folder.path(), 3, 1);
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 3u);
}

TEST(TrainingState, SurvivesJson) {
  TrainingState state;
  state.step = 1'234;
  state.seed = UINT64_MAX;
  state.config = {{"batch_size", "128"}};
  state.callbacks["early_stopping"] = {{"best", 0.1}, {"wait", 2}};
  const auto back = training_state_from(nlohmann::json::parse(to_json(state).dump()));
  EXPECT_EQ(to_json(back), to_json(state));
  EXPECT_EQ(back.seed, UINT64_MAX);
  EXPECT_EQ(back.callbacks["early_stopping"]["best"].get<double>(), 0.1);
}

TEST(TrainingState, WhatJsonCannotHoldIsNamed) {
  TrainingState state;
  state.callbacks["stop"]["best"] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(message_of<InvalidInput>([&] { to_json(state); }),
              HasSubstr("callbacks.stop.best is inf"));
  state.callbacks["stop"]["best"] = "\xff";
  EXPECT_THAT(message_of<InvalidInput>([&] { to_json(state); }), HasSubstr("UTF-8"));
  state.callbacks.clear();
  state.epoch = -1;
  EXPECT_THAT(message_of<InvalidInput>([&] { to_json(state); }), HasSubstr("epoch is -1"));
}

TEST(TrainingState, MissingAndWrongMembersAreNamed) {
  auto value = to_json(TrainingState{});
  value.erase("seed");
  EXPECT_THAT(message_of<InvalidInput>([&] { training_state_from(value); }),
              HasSubstr("seed is missing"));
  value = to_json(TrainingState{});
  value["step"] = "ten";
  EXPECT_THAT(message_of<InvalidInput>([&] { training_state_from(value); }),
              HasSubstr("step is a string"));
  value["step"] = -3;
  EXPECT_THAT(message_of<InvalidInput>([&] { training_state_from(value); }),
              HasSubstr("step is -3"));
}

}  // namespace
}  // namespace cohort::train
