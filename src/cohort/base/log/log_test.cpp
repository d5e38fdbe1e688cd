#include "cohort/base/log/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "cohort/base/unique_fd.h"

namespace cohort::log {
namespace {

using ::testing::ExitedWithCode;

// Each in a process of its own, since the level is read once.
void log_once_with(const char* level) {
  ::setenv("COHORT_LOG", level, 1);
  info("an info");
  std::exit(0);
}

class LogDeathTest : public ::testing::Test {
  void SetUp() override { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(LogDeathTest, ALevelThatIsNoneIsWarnedOfAndInfoIsUsed) {
  EXPECT_EXIT(log_once_with("bogus"), ExitedWithCode(0),
              "warning: COHORT_LOG is 'bogus', so info is used. Set it to debug, info, warning, "
              "error or off.\ncohort: an info");
}

TEST_F(LogDeathTest, ALevelThatIsOneIsTakenWithoutAWord) {
  EXPECT_EXIT(log_once_with("info"), ExitedWithCode(0), "^cohort: an info");
  EXPECT_EXIT(log_once_with("error"), ExitedWithCode(0), "^$");
}

// Standard error as a pipe that is not read, for as long as this lives.
class UnreadStandardError {
 public:
  UnreadStandardError() : saved_(::dup(STDERR_FILENO)) {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reader_.reset(fds[0]);
    ::dup2(fds[1], STDERR_FILENO);
    ::close(fds[1]);
  }
  ~UnreadStandardError() { ::dup2(saved_.get(), STDERR_FILENO); }

  void fill() {
    const std::string line(4095, 'x');
    pollfd entry{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    while (::poll(&entry, 1, 0) > 0)
      ASSERT_EQ(::write(STDERR_FILENO, (line + "\n").data(), line.size() + 1), 4096);
  }
  // Everything up to `text`.
  std::string read_until(std::string_view text) {
    std::string seen;
    char buffer[65536];
    pollfd entry{.fd = reader_.get(), .events = POLLIN, .revents = 0};
    while (seen.find(text) == std::string::npos && ::poll(&entry, 1, 20'000) > 0)
      seen.append(buffer, static_cast<std::size_t>(::read(reader_.get(), buffer, sizeof buffer)));
    return seen;
  }

 private:
  UniqueFd saved_, reader_;
};

TEST(Log, AThreadThatServesOthersIsNotHeldUpByAReaderThatDoesNotRead) {
  UnreadStandardError error;
  error.fill();
  std::thread network([] {
    const NeverWait never_wait;
    for (int i = 0; i < 1500; ++i) warning("line {}", i);
  });
  network.join();  // hangs where a line waits
  const std::string seen = error.read_until("were dropped");
  EXPECT_THAT(seen, ::testing::HasSubstr("line 0\n"));
  EXPECT_THAT(seen, ::testing::HasSubstr("line 999\n"));
  EXPECT_THAT(seen, ::testing::Not(::testing::HasSubstr("line 1499\n")));
  EXPECT_THAT(seen,
              ::testing::ContainsRegex("warning: [45][0-9][0-9] lines of the log were dropped"));
}

TEST(Log, ALineThatWaitsDoesNotHoldUpAThreadThatServesOthers) {
  UnreadStandardError error;
  error.fill();
  std::thread waits([] { warning("a patient line"); });
  std::thread network([] {
    const NeverWait never_wait;
    for (int i = 0; i < 10; ++i) warning("line {}", i);
  });
  network.join();
  const std::string seen = error.read_until("line 9\n");
  EXPECT_THAT(seen, ::testing::HasSubstr("line 0\n"));
  waits.join();
}

}  // namespace
}  // namespace cohort::log
