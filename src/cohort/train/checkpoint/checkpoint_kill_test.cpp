// kill -9 of a process that saves checkpoints, at random instants: the folder always has a last
// good one, it never goes back, and the next writer clears up.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "cohort/train/checkpoint/checkpoint_files.h"
#include "cohort/train/checkpoint/checkpoint_writer.h"
#include "cohort/train/checkpoint/put_file_test.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 100;
constexpr std::int64_t kStepsARound = 1'000;

Checkpoint checkpoint_of(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  for (const char* name : {"a", "b", "c"})
    checkpoint.tensors.emplace(name, torch::full({200'000}, static_cast<float>(step % 4096)));
  return checkpoint;
}

// The child: saves until it is killed. Every third step is saved twice, and every fifth is the
// best.
[[noreturn]] void save_for_ever(const fs::path& folder, std::int64_t from, int started) {
  try {
    CheckpointWriter writer({.folder = folder, .keep_last = 1});
    for (std::int64_t step = from; step < from + kStepsARound; ++step) {
      SaveOptions options;
      if (step % 5 == 0) options.best = SaveOptions::Best{"loss", 1.0};
      writer.save(checkpoint_of(step), options);
      if (step % 3 == 0) writer.save(checkpoint_of(step));
      if (step == from && ::write(started, "x", 1) != 1) ::_exit(3);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the child failed: %s\n", error.what());
  }
  ::_exit(4);
}

TEST(CheckpointKill, AFolderAlwaysHasALastGoodCheckpoint) {
  // The child is forked from here, so no pool of threads may exist.
  torch::set_num_threads(1);
  ScratchFolder folder;
  std::mt19937 random(11);
  std::int64_t last = 0;
  int torn = 0, advanced = 0;
  for (int round = 0; round < kRounds; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_for_ever(folder.path(), last + 1, pipe[1]);
    ::close(pipe[1]);
    char byte = 0;
    EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
    ::close(pipe[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));  // the instant
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);

    for (const auto& entry : fs::directory_iterator(folder.path()))
      torn += entry.path().extension() == ".tmp";
    const auto loaded = load_latest(folder.path());
    if (!loaded && last == 0) continue;  // killed before the first was on the disk
    ASSERT_TRUE(loaded) << "round " << round;
    ASSERT_GE(loaded->state.step, last) << "round " << round;
    advanced += loaded->state.step > last;
    last = loaded->state.step;
    for (const auto& [name, tensor] : loaded->tensors)
      ASSERT_TRUE(torch::equal(tensor, checkpoint_of(last).tensors.at(name))) << name;
  }
  std::printf("%d rounds: step %ld reached, %d rounds advanced, %d torn files seen\n", kRounds,
              static_cast<long>(last), advanced, torn);
  EXPECT_GT(advanced, 0);
  EXPECT_GT(torn, 0);

  CheckpointWriter next({.folder = folder.path(), .keep_last = 1});
  next.save(checkpoint_of(last + 1));
  next.close();
  const auto best = find_best(folder.path());
  EXPECT_LE(list_checkpoints(folder.path()).size(), best ? 2u : 1u);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".tmp");
}

}  // namespace
}  // namespace cohort::train
