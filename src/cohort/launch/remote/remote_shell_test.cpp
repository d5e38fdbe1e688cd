#include "cohort/launch/remote/remote_shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::launch {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(ShellWords, AreThoseOfAShell) {
  EXPECT_EQ(split_shell_words("  ssh -o  BatchMode=yes\t"), (Words{"ssh", "-o", "BatchMode=yes"}));
  EXPECT_EQ(split_shell_words(R"(a 'b c' "d 'e" f\ g "h\"i" '' x"y"z)"),
            (Words{"a", "b c", "d 'e", "f g", "h\"i", "", "xyz"}));
  EXPECT_TRUE(split_shell_words(" ").empty());
  EXPECT_THAT(message_of<InvalidInput>([] { split_shell_words("ssh 'x"); }),
              HasSubstr("is not closed"));
}

TEST(RemoteShell, EndsWithHostAndHostTask) {
  EXPECT_EQ(parse_remote_shell("ip netns exec", "/opt/cohort").command("node1"),
            (Words{"ip", "netns", "exec", "node1", "/opt/cohort", "host-task"}));
}

TEST(RemoteShell, TakesThisProgramsOwnPathByDefault) {
  EXPECT_THAT(parse_remote_shell("ssh", "").cohort, testing::EndsWith("launch_test"));
}

TEST(RemoteShell, RefusesWhatCannotBeRun) {
  EXPECT_THAT(message_of<InvalidInput>([] { parse_remote_shell(" ", "x"); }),
              HasSubstr("--remote-shell names no program"));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_remote_shell("ssh", "/my tools/cohort"); }),
              HasSubstr("would be taken apart by a shell"));
}

}  // namespace
}  // namespace cohort::launch
