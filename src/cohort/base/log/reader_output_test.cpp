#include "cohort/base/log/reader_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <string>
#include <thread>

#include "cohort/base/unique_fd.h"

namespace cohort {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reader.reset(fds[0]);
    writer.reset(fds[1]);
    ::fcntl(writer.get(), F_SETPIPE_SZ, 4096);
  }
  UniqueFd reader, writer;
};

const std::string kMoreThanItHolds(20'000, 'x');

TEST(WriteToReader, WaitsForASlowReader) {
  Pipe pipe;
  size_t taken = 0;
  std::thread slow([&] {
    char buffer[512];
    for (ssize_t count; (count = ::read(pipe.reader.get(), buffer, sizeof buffer)) > 0;)
      taken += static_cast<size_t>(count);
  });
  EXPECT_TRUE(write_to_reader(pipe.writer.get(), kMoreThanItHolds, /*drop_if_blocked=*/false));
  pipe.writer.reset();
  slow.join();
  EXPECT_EQ(taken, kMoreThanItHolds.size());
}

TEST(WriteToReader, GivesUpOnAStuckReaderWhenInAHurry) {
  Pipe pipe;
  EXPECT_FALSE(write_to_reader(pipe.writer.get(), kMoreThanItHolds, /*drop_if_blocked=*/true));
}

TEST(WriteToReader, GivesUpOnAStuckReaderWhenAskedToStop) {
  Pipe pipe;
  sigset_t term, old;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &old);
  ::pthread_kill(::pthread_self(), SIGTERM);
  EXPECT_FALSE(write_to_reader(pipe.writer.get(), kMoreThanItHolds, /*drop_if_blocked=*/false));
  int taken = 0;
  ::sigwait(&term, &taken);
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace
}  // namespace cohort
