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

TEST(RemoteFailure, SaysWhatToDo) {
  const RemoteShell shell = parse_remote_shell("ssh -q", "/opt/cohort");
  const auto why = [&](int code, const char* said) {
    return remote_failure(shell, "node1", code, said);
  };
  EXPECT_THAT(why(127, "sh: 1: /opt/cohort: not found\n"),
              AllOf(HasSubstr("no program '/opt/cohort'"), HasSubstr("--remote-cohort")));
  EXPECT_THAT(why(255, "No ED25519 host key is known\nHost key verification failed.\r\n"),
              HasSubstr("not known here (compare and accept it once with `ssh node1 true`)"));
  EXPECT_THAT(why(255,
                  "@ REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
                  "Host key verification failed.\r\n"),
              HasSubstr("ssh-keygen -R node1"));
  EXPECT_THAT(why(255, "me@node1: Permission denied (publickey).\r\n"), HasSubstr("ssh-copy-id"));
  EXPECT_EQ(why(255, "ssh: connect to host node1 port 22: Connection refused\r\n"),
            "it cannot be reached: ssh: connect to host node1 port 22: Connection refused");
  EXPECT_EQ(why(255, ""), "it cannot be reached");
  EXPECT_EQ(why(2, "hello\ncohort: error: no HOME\n"), "cohort: error: no HOME");
}

}  // namespace
}  // namespace cohort::launch
