#include "cohort/launch/process/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("pipe", errno);
    reader.reset(fds[0]);
    writer.reset(fds[1]);
  }
  UniqueFd reader, writer;
};

// Until every writer is gone.
std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = ::read(fd, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  return text;
}

// What this process has open, by number: the file behind it.
std::map<std::string, std::string> open_descriptors() {
  std::map<std::string, std::string> found;
  DIR* folder = ::opendir("/proc/self/fd");
  const std::string own = std::to_string(::dirfd(folder));
  while (const dirent* entry = ::readdir(folder)) {
    char target[256];
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length > 0 && entry->d_name != own)
      found[entry->d_name] = std::string(target, static_cast<std::size_t>(length));
  }
  ::closedir(folder);
  return found;
}

SpawnOptions shell(const std::string& script, int output) {
  return {.program = "/bin/sh",
          .command = {"sh", "-c", script},
          .environment = cluster::Environment::of_this_process(),
          .output = output};
}

int exit_code(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SpawnTest : public testing::TestWithParam<bool> {
 protected:
  SpawnTest() {
    if (GetParam()) window_ = std::make_unique<DescriptorWindow>();
    for (int i = 0; i < 300; ++i)  // a launcher of many tasks
      others_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  std::unique_ptr<DescriptorWindow> window_;
  std::vector<UniqueFd> others_;
};

TEST_P(SpawnTest, GivesWhatIsNamedAndNothingElse) {
  Pipe output, inherited;
  const int number = task_fd_number(TaskFd::last_word);
  SpawnOptions options = shell("echo said; echo passed on >/proc/self/fd/" +
                                   std::to_string(number) + "; ls /proc/self/fd | wc -w",
                               output.writer.get());
  options.inherited = {{inherited.writer.get(), TaskFd::last_word}};
  const pid_t pid = spawn(options, window_.get());
  output.writer.reset();
  inherited.writer.reset();
  // The three standard streams, the inherited one, and that of `ls` itself.
  EXPECT_EQ(read_all(output.reader.get()), "said\n5\n");
  EXPECT_EQ(read_all(inherited.reader.get()), "passed on\n");
  EXPECT_EQ(exit_code(pid), 0);
}

TEST_P(SpawnTest, LeavesTheLaunchersDescriptorsAsTheyWere) {
  Pipe output;
  const auto before = open_descriptors();
  const pid_t pid = spawn(shell("exit 3", output.writer.get()), window_.get());
  EXPECT_EQ(exit_code(pid), 3);
  EXPECT_EQ(open_descriptors(), before);
  for (const UniqueFd& other : others_) EXPECT_EQ(::fcntl(other.get(), F_GETFD), FD_CLOEXEC);
}

TEST_P(SpawnTest, AProgramThatCannotBeExecutedIsAnErrorAndLeavesNothing) {
  Pipe output;
  const auto before = open_descriptors();
  SpawnOptions options = shell("", output.writer.get());
  options.program = "/dev/null";
  EXPECT_THROW(spawn(options, window_.get()), SystemError);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
}

TEST_P(SpawnTest, OftenInARow) {
  for (int i = 0; i < 20; ++i) {
    Pipe output;
    const pid_t pid = spawn(shell("echo " + std::to_string(i), output.writer.get()), window_.get());
    output.writer.reset();
    EXPECT_EQ(read_all(output.reader.get()), std::to_string(i) + "\n");
    EXPECT_EQ(exit_code(pid), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, SpawnTest, testing::Bool(), [](const auto& tested) {
  return tested.param ? "WithAWindow" : "WithoutAWindow";
});

}  // namespace
}  // namespace cohort::launch
