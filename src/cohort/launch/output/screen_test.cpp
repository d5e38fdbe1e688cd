#include "cohort/launch/output/screen.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/unique_fd.h"
#include "cohort/report/terminal_test.h"

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using ::testing::ElementsAre;

class ScreenTest : public ::testing::Test {
 protected:
  ScreenTest() {
    int fds[2];
    EXPECT_EQ(::pipe(fds), 0);
    reader_.reset(fds[0]);
    writer_.reset(fds[1]);
  }
  ScreenOptions options() { return {.fd = writer_.get()}; }
  std::string output(Screen& screen) {
    screen.flush();
    writer_.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(reader_.get(), buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    return text;
  }
  UniqueFd reader_, writer_;
};

TEST_F(ScreenTest, EachLineStandsBehindItsHostAndTask) {
  Screen screen(options());
  screen.print("node7", {TaskType::worker, 1}, {.text = "loss 0.3"});
  screen.print("node7", {TaskType::ps, 0}, {.text = "ready"});
  EXPECT_EQ(output(screen), "node7:worker/1 loss 0.3\nnode7:ps/0 ready\n");
}

TEST_F(ScreenTest, ShowFiltersByTypeAndIndex) {
  auto opts = options();
  opts.show = {"worker:0", "ps"};
  Screen screen(opts);
  for (TaskId task :
       {TaskId{TaskType::worker, 0}, TaskId{TaskType::worker, 1}, TaskId{TaskType::ps, 3}})
    screen.print("h", task, {.text = "x"});
  EXPECT_EQ(output(screen), "h:worker/0 x\nh:ps/3 x\n");
}

TEST_F(ScreenTest, AFilterThatNamesNoTaskIsRefused) {
  auto opts = options();
  opts.show = {"wroker:0"};
  EXPECT_THROW(Screen{opts}, InvalidInput);
}

TEST_F(ScreenTest, ACutLineSaysHowMuchIsMissing) {
  Screen screen(options());
  screen.print("h", {TaskType::worker, 0}, {.text = "aaa", .cut_bytes = 1000});
  EXPECT_EQ(output(screen), "h:worker/0 aaa ... [1000 bytes more, see its log file]\n");
}

TEST_F(ScreenTest, RedrawsAreShownAtMostOnceASecond) {
  Screen screen(options());
  for (int i = 0; i < 100; ++i)
    screen.print("h", {TaskType::worker, 0}, {.text = "bar", .is_redraw = true});
  EXPECT_EQ(output(screen), "h:worker/0 bar\n");
}

TEST_F(ScreenTest, AClosedScreenFallsSilentInsteadOfFailing) {
  ::signal(SIGPIPE, SIG_IGN);
  Screen screen(options());
  reader_.reset();
  for (int i = 0; i < 3; ++i) {
    screen.print("h", {TaskType::worker, 0}, {.text = "x"});
    screen.flush();
  }
}

class LiveScreenTest : public ::testing::Test {
 protected:
  void print(int worker, const std::string& text, bool is_redraw) {
    screen_.print("h", {TaskType::worker, worker}, {.text = text, .is_redraw = is_redraw});
    screen_.flush();
  }
  report::Terminal terminal_{30};
  Screen screen_{{.fd = terminal_.fd(), .escape = true, .live = true}};
};

TEST_F(LiveScreenTest, ARedrawnLineStaysLastWhileOthersGoAbove) {
  print(0, "step 1", true);
  print(1, "hello", false);
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/1 hello", "h:worker/0 step 1"));
  print(0, "epoch 1 done", false);
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/1 hello", "h:worker/0 epoch 1 done", ""));
}

TEST_F(LiveScreenTest, ABlankRedrawTakesTheLineAway) {
  print(0, "step 1", true);
  print(0, " ", true);
  EXPECT_THAT(terminal_.lines(), ElementsAre(""));
}

TEST_F(LiveScreenTest, OfSeveralTasksTheFirstOneKeepsItsLine) {
  print(1, "50%", true);
  print(0, "40%", true);
  print(1, "60%", true);
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/0 40%"));
}

TEST_F(LiveScreenTest, TheLineOfATaskThatEndsStaysAsItWas) {
  print(0, "step 41", true);
  screen_.finish({TaskType::worker, 1});
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/0 step 41"));
  screen_.finish({TaskType::worker, 0});
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/0 step 41", ""));
}

TEST_F(LiveScreenTest, ARedrawCannotDisturbTheTerminal) {
  print(0, "\x1b[2Jgone and far too long for it", true);
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/0 \\x1b[2Jgone and fa"));
}

TEST_F(LiveScreenTest, ALineOfTheLogDoesNotEndUpBehindTheLivingOne) {
  print(0, "step 1", true);
  log::warning("something");
  EXPECT_THAT(terminal_.lines(), ElementsAre(""));
  print(1, "x", false);
  EXPECT_THAT(terminal_.lines(), ElementsAre("h:worker/1 x", "h:worker/0 step 1"));
}

TEST(Printable, ControlBytesBecomeVisibleAndColoursStay) {
  EXPECT_EQ(printable(std::string_view("a\0b\x07\tc", 6)), "a\\x00b\\x07\tc");
  EXPECT_EQ(printable("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
  EXPECT_EQ(printable("\x1b[2Jgone"), "\\x1b[2Jgone");
}

}  // namespace
}  // namespace cohort::launch
