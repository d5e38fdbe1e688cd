#include "cohort/engine/line_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::engine {
namespace {

struct Relayed {
  std::vector<std::string> writes;  // as they arrive, one by one
  int status = 0;                   // of the relay
};

// What `program` writes, through a relay. A socket keeps the writes apart.
Relayed relay_of(const std::function<void()>& program) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return {};
  UniqueFd reader(fds[0]), writer(fds[1]);
  const pid_t relay = ::fork();
  if (relay == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    writer.reset();
    const auto end = relay_lines({}, write_to_output);
    if (end) end_like(end->status);
    program();
    ::_exit(0);
  }
  writer.reset();
  Relayed result;
  char bytes[256 * 1024];
  for (ssize_t count; (count = ::read(reader.get(), bytes, sizeof bytes)) > 0;)
    result.writes.emplace_back(bytes, static_cast<std::size_t>(count));
  ::waitpid(relay, &result.status, 0);
  return result;
}

void say(int fd, const std::string& text) {
  [[maybe_unused]] ssize_t count = ::write(fd, text.data(), text.size());
}

TEST(LineRelayTest, ALineThatIsWrittenInPiecesArrivesAsOne) {
  const Relayed relayed = relay_of([] {
    for (const char* piece : {"epoch", " ", "1", "\n"}) say(STDOUT_FILENO, piece);
    ::raise(SIGTERM);
  });
  EXPECT_EQ(relayed.writes, (std::vector<std::string>{"epoch 1\n"}));
  EXPECT_TRUE(WIFSIGNALED(relayed.status) && WTERMSIG(relayed.status) == SIGTERM);
}

TEST(LineRelayTest, HalfALineComesAfterAWhile) {
  const Relayed relayed = relay_of([] {
    say(STDERR_FILENO, "50%");
    ::usleep(400'000);
    say(STDERR_FILENO, " done\nlast");
    ::_exit(7);
  });
  EXPECT_EQ(relayed.writes, (std::vector<std::string>{"50%", " done\n", "last"}));
  EXPECT_EQ(WEXITSTATUS(relayed.status), 7);
}

TEST(LineRelayTest, ItEndsWithTheProgramWhateverThatLeft) {
  const Relayed relayed = relay_of([] {
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::sleep(60);
    }
    say(STDOUT_FILENO, "done\n");
    ::_exit(0);
  });
  EXPECT_EQ(relayed.writes, (std::vector<std::string>{"done\n"}));
}

TEST(LineRelayTest, TheProgramIsKilledWhenNobodyReads) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]), writer(fds[1]);
  const pid_t relay = ::fork();
  if (relay == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    writer.reset();
    reader.reset();
    const auto end = relay_lines({}, write_to_output);
    if (end) end_like(0);
    for (;;) ::pause();
  }
  writer.reset();
  reader.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(relay, &status, 0), relay);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(LineRelayTest, ASignalReachesTheProgram) {
  const Relayed relayed = relay_of([] {
    ::signal(SIGTERM, [](int) {
      say(STDOUT_FILENO, "told to end\n");
      ::_exit(3);
    });
    ::kill(::getppid(), SIGTERM);
    ::sleep(60);
  });
  EXPECT_EQ(relayed.writes, (std::vector<std::string>{"told to end\n"}));
  EXPECT_EQ(WEXITSTATUS(relayed.status), 3);
}

}  // namespace
}  // namespace cohort::engine
