#include "cohort/base/process/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cohort {
namespace {

TEST(Process, AnEndedProcessIsToldApartFromOneThatRuns) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string identity = process_identity(child);
  EXPECT_FALSE(process_ended(identity));
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(process_ended(identity));  // before its parent has taken notice, too
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_ended(identity));
}

TEST(Process, APidThatIsUsedAgainIsAnotherProcess) {
  std::string identity = process_identity(::getpid());
  EXPECT_FALSE(process_ended(identity));
  identity.back() = identity.back() == '1' ? '2' : '1';  // of the start time
  EXPECT_TRUE(process_ended(identity));
}

TEST(Process, OfAnotherKernelNothingIsKnown) {
  std::string identity = process_identity(::getpid());
  identity.front() = identity.front() == 'a' ? 'b' : 'a';
  EXPECT_FALSE(process_ended(identity));
  EXPECT_TRUE(process_ended("no identity"));
}

}  // namespace
}  // namespace cohort
