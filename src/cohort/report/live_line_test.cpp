#include "cohort/report/live_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cohort/report/terminal_test.h"

namespace cohort::report {
namespace {

using ::testing::ElementsAre;

TEST(LiveLine, IsWrittenOverAndOthersGoAboveIt) {
  Terminal terminal;
  LiveLine line(terminal.fd());
  line.show("step 1 of many");
  line.show("step 2");
  EXPECT_THAT(terminal.lines(), ElementsAre("step 2"));
  line.print("a\nb\n");
  EXPECT_THAT(terminal.lines(), ElementsAre("a", "b", "step 2"));
}

TEST(LiveLine, MakesWayForOthersAndComesBack) {
  Terminal terminal;
  LiveLine line(terminal.fd());
  line.show("step 1");
  line.hide();
  EXPECT_THAT(terminal.lines(), ElementsAre(""));
  EXPECT_EQ(::write(terminal.fd(), "warning\n", 8), 8);
  line.print("a\n");
  EXPECT_THAT(terminal.lines(), ElementsAre("warning", "a", "step 1"));
  line.erase();
  line.print("b\n");
  EXPECT_THAT(terminal.lines(), ElementsAre("warning", "a", "b", ""));
}

TEST(LiveLine, IsGoneWhenItsOwnerIs) {
  Terminal terminal;
  LiveLine(terminal.fd()).show("step 1");
  EXPECT_THAT(terminal.lines(), ElementsAre(""));
}

TEST(LiveLine, NeverWraps) {
  Terminal terminal(20);
  LiveLine line(terminal.fd());
  line.show(std::string(100, 'x'));
  EXPECT_THAT(terminal.lines(), ElementsAre(std::string(19, 'x')));
}

TEST(LiveLine, AReaderThatIsGoneIsToldNotSuffered) {
  ::signal(SIGPIPE, SIG_IGN);
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  UniqueFd writer(fds[1]);
  ::close(fds[0]);
  LiveLine line(writer.get());
  EXPECT_FALSE(line.show("x"));
  EXPECT_FALSE(line.print("y\n"));
}

TEST(ClipColumns, KeepsCharactersWholeAndColoursFree) {
  EXPECT_EQ(clip_columns("hello", 3), "hel");
  EXPECT_EQ(clip_columns("hello", 9), "hello");
  EXPECT_EQ(clip_columns("\xe2\x96\x88\xe2\x96\x88x", 2), "\xe2\x96\x88\xe2\x96\x88");
  EXPECT_EQ(clip_columns("\x1b[36mabc\x1b[0m", 2), "\x1b[36mab\x1b[0m");
  EXPECT_EQ(clip_columns("abc", 0), "");
}

}  // namespace
}  // namespace cohort::report
