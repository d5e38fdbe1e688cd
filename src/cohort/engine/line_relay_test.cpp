#include "cohort/engine/line_relay.h"

#include <gtest/gtest.h>
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
    relay_whole_lines("4");
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
  EXPECT_EQ(relayed.writes,
            (std::vector<std::string>{"epoch 1\n", "rank 4 was killed by signal 15 (SIGTERM)\n"}));
  EXPECT_TRUE(WIFSIGNALED(relayed.status) && WTERMSIG(relayed.status) == SIGTERM);
}

TEST(LineRelayTest, HalfALineComesAfterAWhile) {
  const Relayed relayed = relay_of([] {
    say(STDERR_FILENO, "50%");
    ::usleep(400'000);
    say(STDERR_FILENO, " done\nlast");
    ::_exit(7);
  });
  EXPECT_EQ(relayed.writes, (std::vector<std::string>{"50%", " done\n", "last",
                                                      "rank 4 ended with exit code 7\n"}));
  EXPECT_EQ(WEXITSTATUS(relayed.status), 7);
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
