#include "cohort/base/process/run_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "cohort/base/process/dismissed.h"
#include "cohort/base/process/last_word.h"

namespace cohort {
namespace {

using Kind = LastWord::Kind;

class RunMainTest : public testing::Test {
 protected:
  RunMainTest() { ::setenv(kLastWordVariable, std::to_string(owner_.fd()).c_str(), 1); }
  ~RunMainTest() override { ::unsetenv(kLastWordVariable); }

  int run(const std::function<int()>& body) {
    testing::internal::CaptureStderr();
    const int code = run_main("train", body);
    printed_ = testing::internal::GetCapturedStderr();
    word_ = owner_.read(::getpid(), code);
    return code;
  }

  LastWordOwner owner_;
  std::string printed_;
  LastWord word_;
};

TEST_F(RunMainTest, PrintsTheSentenceAndTellsTheLauncher) {
  EXPECT_EQ(run([]() -> int { throw InvalidInput("--epochs is -1", {.advice = "Give 1."}); }), 2);
  EXPECT_EQ(printed_, "train: --epochs is -1. Give 1.\n");
  EXPECT_EQ(word_.kind, Kind::error);
  EXPECT_EQ(word_.message, "train: --epochs is -1. Give 1.");
  EXPECT_EQ(word_.exit_code, 2);
}

TEST_F(RunMainTest, CutsLibTorchsFrames) {
  constexpr const char* kWhat =
      "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)\n"
      "Exception raised from meta at /aten/src/ATen/native/LinearAlgebra.cpp:204 (most recent call "
      "first):\n"
      "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9e (0x7f libc10.so)\n"
      "frame #1: c10::detail::torchCheckFail(char const*, char const*) + 0x10b (0x7f libc10.so)\n";
  EXPECT_EQ(run([]() -> int { throw std::runtime_error(kWhat); }), 1);
  EXPECT_EQ(printed_, "train: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)\n");
  EXPECT_EQ(word_.message, "train: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)");
  EXPECT_EQ(error_sentence("two\nlines"), "two\nlines");
}

TEST_F(RunMainTest, ALostPeerIsNotAnErrorOfItsOwn) {
  run([]() -> int {
    throw PeerError("rank 1 left the group", {.during = "barrier #3", .peer = "worker/1"});
  });
  EXPECT_EQ(word_.kind, Kind::lost_peer);
  EXPECT_EQ(word_.peer, "worker/1");
  EXPECT_EQ(word_.during, "barrier #3");
  run([]() -> int { throw TimeoutError("late", {.peer = "worker/2"}); });
  EXPECT_EQ(word_.peer, "worker/1") << "the first loss counts";
  say_last_word({});
  run([]() -> int { throw TimeoutError("late", {.peer = "worker/2"}); });
  EXPECT_EQ(word_.loss, LastWord::Loss::late);
  say_last_word({});
  run([]() -> int { throw TimeoutError("no store"); });
  EXPECT_EQ(word_.kind, Kind::error);
}

TEST_F(RunMainTest, WhatAProgramMakesOfALossStaysALoss) {
  note_lost_peer("worker/1", LastWord::Loss::died, "all_reduce #1", "rank 1 died");
  run([]() -> int { throw std::runtime_error("the training cannot go on"); });
  EXPECT_EQ(word_.kind, Kind::lost_peer);
  EXPECT_EQ(word_.peer, "worker/1");
  EXPECT_EQ(word_.message, "train: the training cannot go on");
  EXPECT_EQ(run([] { return 3; }), 3);
  EXPECT_EQ(word_.kind, Kind::lost_peer);
}

TEST_F(RunMainTest, ACodeIsSaidAndSuccessLeavesWhatTheSessionSaid) {
  EXPECT_EQ(run([] { return 3; }), 3);
  EXPECT_EQ(word_.kind, Kind::error);
  EXPECT_EQ(word_.message, "");
  say_last_word({.kind = Kind::done});
  EXPECT_EQ(run([] { return 0; }), 0);
  EXPECT_EQ(word_.kind, Kind::done);
  EXPECT_EQ(run([]() -> int { throw Dismissed("scaled down"); }), 0);
  EXPECT_EQ(word_.kind, Kind::done);
}

}  // namespace
}  // namespace cohort
