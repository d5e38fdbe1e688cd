#include "cohort/launch/task/host_task.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/launch/ending/remote_last_word.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(RemoteTaskLine, BringsEverythingOver) {
  RemoteTask task{.name = "worker/3",
                  .command = {"./train", "--name", "two\nlines \"quoted\""},
                  .environment = {{"COHORT_JOB", "j"}, {"EMPTY", ""}},
                  .removed = {"SLURM_PROCID"},
                  .tasks_on_host = 3,
                  .folder = "/some where",
                  .grace = 1500ms,
                  .secret = Secret::generate(),
                  .last_word_mark = "0123"};
  std::string line = to_line(task);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  RemoteTask read = parse_remote_task(line);
  EXPECT_EQ(read.name, task.name);
  EXPECT_EQ(read.command, task.command);
  EXPECT_EQ(read.environment, task.environment);
  EXPECT_EQ(read.removed, task.removed);
  EXPECT_EQ(read.tasks_on_host, task.tasks_on_host);
  EXPECT_EQ(read.folder, task.folder);
  EXPECT_EQ(read.grace, task.grace);
  EXPECT_EQ(read.secret->bytes(), task.secret->bytes());
  EXPECT_EQ(read.last_word_mark, task.last_word_mark);
}

TEST(RemoteTaskLine, IsRefusedWhenItIsNone) {
  auto refusal = [](const char* line) {
    return message_of<InvalidInput>([&] { parse_remote_task(line); });
  };
  EXPECT_THAT(refusal("hello"), HasSubstr("holds no task of a Cohort launcher"));
  EXPECT_THAT(refusal(R"({"cohort":"0.0.1"})"), HasSubstr("the launcher is Cohort 0.0.1"));
  EXPECT_THAT(message_of<InvalidInput>([] { to_line({.name = "worker/0", .command = {"\xff"}}); }),
              HasSubstr("worker/0 holds bytes that are not UTF-8"));
}

// `cohort host-task` as a process of its own, with the launcher's end of its input.
class HostTaskTest : public testing::Test {
 protected:
  void start(const std::string& shell_text, std::chrono::milliseconds beat = 50ms,
             std::chrono::milliseconds silence = 10s) {
    RemoteTask task{.name = "worker/0",
                    .command = {"sh", "-c", shell_text},
                    .environment = {{"ADDED", "yes"}},
                    .folder = folder_.path(),
                    .grace = 1500ms,
                    .secret = secret_,
                    .last_word_mark = mark_};
    int fds[2];
    ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    UniqueFd reader(fds[0]), writer(fds[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      writer.reset();
      int output = ::open((folder_ / "output").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      ::dup2(output, STDERR_FILENO);
      int code = 99;
      try {
        code = run_host_task({.input = reader.get(), .output = output, .silence = silence});
      } catch (const std::exception& error) {
        ::dprintf(output, "%s\n", error.what());
      }
      ::_exit(code);
    }
    link_.emplace(std::move(writer), to_line(task), beat);
  }
  ~HostTaskTest() override {
    link_.reset();
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // Its exit code; -1 when a signal ended it, or when nothing did.
  int finish(std::chrono::milliseconds within = 10s) {
    for (Deadline deadline = Deadline::after(within); !deadline.expired();
         std::this_thread::sleep_for(2ms)) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) != pid_) continue;
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -1;
  }
  std::string output() { return read_file(folder_ / "output"); }
  // Waits for the program to say so.
  void wait_for(const std::string& text) {
    Deadline deadline = Deadline::after(10s);
    while (!std::filesystem::exists(folder_ / "output") ||
           output().find(text) == std::string::npos) {
      ASSERT_FALSE(deadline.expired()) << "no '" << text << "'";
      std::this_thread::sleep_for(2ms);
    }
  }

  ScratchFolder folder_;
  Secret secret_ = Secret::generate();
  std::string mark_ = new_last_word_mark();
  pid_t pid_ = -1;
  std::optional<RemoteLink> link_;
};

TEST_F(HostTaskTest, RunsTheProgramWithItsEnvironmentFolderAndSecret) {
  start("pwd; echo added $ADDED; cat /dev/fd/$COHORT_SECRET_FD; exit 7");
  EXPECT_EQ(finish(), 7);
  EXPECT_THAT(output(), HasSubstr(folder_.path().string() + "\nadded yes\n"));
  EXPECT_THAT(output(), HasSubstr(secret_.to_text()));
}

TEST_F(HostTaskTest, PassesTheProgramsLastWordOnBehindItsOutput) {
  start(
      "echo one; printf 'cohort last word 1\\nerror\\n%s\\n3\\n\\n0\\n\\nbad sample' $$ "
      "1<>/proc/self/fd/$COHORT_LAST_WORD_FD; exit 3");
  EXPECT_EQ(finish(), 3);
  LastWordFilter filter(mark_);
  const std::string rest = filter.feed(output()) + filter.finish();
  EXPECT_EQ(rest, "one\n");
  EXPECT_EQ(filter.word().kind, LastWord::Kind::error);
  EXPECT_EQ(filter.word().message, "bad sample");
}

TEST_F(HostTaskTest, EndsWithTheSignalAsACode) {
  start("kill -SEGV $$");
  EXPECT_EQ(finish(), 128 + SIGSEGV);
}

TEST_F(HostTaskTest, RelaysTheLaunchersSignals) {
  start("trap 'echo one; exit 5' USR1; echo ready; while :; do sleep 0.01; done");
  wait_for("ready");
  link_->signal(SIGUSR1);
  EXPECT_EQ(finish(), 5);
}

TEST_F(HostTaskTest, RelaysItsOwnSignals) {
  start("trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done");
  wait_for("ready");
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(finish(), 6);
}

TEST_F(HostTaskTest, KillsAProgramThatOutlivesItsLauncher) {
  start("trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done");
  wait_for("ready");
  link_.reset();
  EXPECT_EQ(finish(), 128 + SIGKILL);
  EXPECT_THAT(output(), HasSubstr("asked"));
  EXPECT_THAT(output(), HasSubstr("the connection to the launcher ended: ending worker/0"));
}

TEST_F(HostTaskTest, TakesSilenceForALostLauncher) {
  start("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done", /*beat=*/1h,
        /*silence=*/300ms);
  EXPECT_EQ(finish(), 9);
  EXPECT_THAT(output(), HasSubstr("nothing has been heard of the launcher for 0.3 s"));
}

TEST_F(HostTaskTest, LivesAsLongAsTheLauncherBeats) {
  start("sleep 3; exit 4", /*beat=*/50ms, /*silence=*/2s);
  EXPECT_EQ(finish(), 4);
}

TEST_F(HostTaskTest, LeavesNobodyBehindWhenItIsKilled) {
  start("setsid sleep 1000 & echo child $!; wait");
  wait_for("child ");
  wait_for("\n");
  std::string text = output();
  auto child = static_cast<pid_t>(std::stoi(text.substr(text.find("child ") + 6)));
  ::kill(pid_, SIGKILL);
  finish();
  for (Deadline deadline = Deadline::after(10s);;) {
    // A dead process whose new parent has not noticed yet still has a number.
    if (::kill(child, 0) != 0) break;
    std::string stat = read_file(fmt::format("/proc/{}/stat", child));
    if (stat.find(") Z ") != std::string::npos) break;
    ASSERT_FALSE(deadline.expired());
    std::this_thread::sleep_for(5ms);
  }
}

TEST_F(HostTaskTest, SaysWhatIsMissingOnThisHost) {
  RemoteTask none{.name = "worker/2", .command = {"no-such-program"}, .folder = folder_.path()};
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]), writer(fds[1]);
  std::string line = to_line(none);
  ASSERT_EQ(::write(writer.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_EXIT(
      {
        try {
          run_host_task({.input = reader.get()});
        } catch (const InvalidInput& error) {
          std::fputs(error.what(), stderr);
          ::_exit(2);
        }
        ::_exit(0);
      },
      testing::ExitedWithCode(2), "program 'no-such-program' not found in PATH \\(worker/2 on ");
}

}  // namespace
}  // namespace cohort::launch
