#include "cohort/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "cohort/base/log/log.h"
#include "cohort/report/terminal_test.h"

namespace cohort::report {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    int fds[2];
    EXPECT_EQ(::pipe(fds), 0);
    reader_.reset(fds[0]);
    writer_.reset(fds[1]);
  }
  ProgressOptions options(ProgressMode mode, int fd) {
    return {.fd = fd, .mode = mode, .columns = 40, .now = [this] { return now_; }};
  }
  std::string output() {
    writer_.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(reader_.get(), buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  }
  std::size_t lines() {
    std::string text = output();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  UniqueFd reader_, writer_;
  ProgressOptions::Clock::time_point now_{};
};

TEST_F(ProgressTest, OnATerminalOneLineLivesAtMostTenTimesASecond) {
  Terminal terminal;
  Progress progress(options(ProgressMode::live, terminal.fd()));
  int shown = 0;
  for (int step = 1; step <= 1000; ++step, now_ += 1ms) {
    shown += progress.due(1, step, 1000);
    progress.update({.epoch = 1, .epochs = 2, .step = step, .steps = 1000});
  }
  EXPECT_EQ(shown, 10);
  auto lines = terminal.lines();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], StartsWith("epoch 1/2 ["));
  EXPECT_THAT(lines[0], HasSubstr("] 901/1000"));
}

TEST_F(ProgressTest, LinesThatStayGoAboveAndTheLineIsGoneAtTheEnd) {
  Terminal terminal;
  Progress progress(options(ProgressMode::live, terminal.fd()));
  progress.update({.epoch = 1, .step = 5});
  progress.print("epoch 1: accuracy 80%");
  EXPECT_THAT(terminal.lines(), ElementsAre("epoch 1: accuracy 80%", "epoch 1 5  1 worker"));
  progress.close();
  EXPECT_THAT(terminal.lines(), ElementsAre("epoch 1: accuracy 80%", ""));
}

TEST_F(ProgressTest, AnExceptionLeavesNoLineBehind) {
  Terminal terminal;
  try {
    Progress progress(options(ProgressMode::live, terminal.fd()));
    progress.update({.step = 5});
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(terminal.lines(), ElementsAre(""));
  log::warning("a line after the end");  // must not reach for the line that is gone
}

TEST_F(ProgressTest, ALineOfTheLogTakesTheLivingLineAwayFirst) {
  Terminal terminal;
  Progress progress(options(ProgressMode::live, terminal.fd()));
  progress.update({.step = 5});
  log::warning("something");
  EXPECT_THAT(terminal.lines(), ElementsAre(""));
  now_ += 1s;
  progress.update({.step = 6});
  EXPECT_THAT(terminal.lines(), ElementsAre("6  1 worker"));
}

TEST_F(ProgressTest, AFileGetsALineEveryTenSeconds) {
  Progress progress(options(ProgressMode::plain, writer_.get()));
  for (int step = 0; step < 60; ++step, now_ += 1s) progress.update({.step = step});
  EXPECT_EQ(lines(), 6u);
}

TEST_F(ProgressTest, AFileGetsALineEveryTenthOfAnEpoch) {
  Progress progress(options(ProgressMode::plain, writer_.get()));
  for (int step = 0; step <= 1000; ++step, now_ += 20ms)
    progress.update({.epoch = 1, .epochs = 1, .step = step, .steps = 1000});
  EXPECT_EQ(lines(), 11u);
}

TEST_F(ProgressTest, ShortEpochsDoNotFloodAFile) {
  Progress progress(options(ProgressMode::plain, writer_.get()));
  for (int epoch = 1; epoch <= 10; ++epoch)
    for (int step = 0; step < 100; ++step, now_ += 1ms)
      progress.update({.epoch = epoch, .epochs = 10, .step = step, .steps = 100});
  EXPECT_EQ(lines(), 1u);
}

TEST_F(ProgressTest, ThroughTheLauncherEachStateIsAWholeRedraw) {
  Progress progress(options(ProgressMode::relayed, writer_.get()));
  for (int step = 1; step <= 20; ++step, now_ += 100ms) progress.update({.step = step});
  progress.print("stays");
  progress.close();
  EXPECT_EQ(output(), "1  1 worker\r\r6  1 worker\r\r11  1 worker\r\r16  1 worker\r\rstays\n \r\r");
}

TEST_F(ProgressTest, OtherRanksAreSilent) {
  Progress progress(options(ProgressMode::silent, writer_.get()));
  progress.update({.step = 5});
  progress.print("x");
  progress.close();
  EXPECT_EQ(output(), "");
}

TEST_F(ProgressTest, TheModeFollowsWhereTheOutputGoes) {
  ::unsetenv(kProgressVariable);
  ::setenv("TERM", "xterm", 1);
  Terminal terminal;
  EXPECT_EQ(ProgressOptions::detect(terminal.fd()).mode, ProgressMode::live);
  EXPECT_EQ(ProgressOptions::detect(writer_.get()).mode, ProgressMode::plain);
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(ProgressOptions::detect(terminal.fd()).mode, ProgressMode::plain);
  ::setenv(kProgressVariable, "57", 1);
  EXPECT_EQ(ProgressOptions::detect(writer_.get()).mode, ProgressMode::relayed);
  EXPECT_EQ(ProgressOptions::detect(writer_.get()).columns, 57);
  ::setenv(kProgressVariable, "wide", 1);
  EXPECT_EQ(ProgressOptions::detect(writer_.get()).mode, ProgressMode::plain);
  ::unsetenv(kProgressVariable);
}

}  // namespace
}  // namespace cohort::report
