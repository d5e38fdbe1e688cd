// The engine "hosts" over a real ssh: the conformance suite, and what can go wrong on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/base/text.h"
#include "cohort/base/version.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/engine_conformance_test.h"
#include "cohort/engine/host_staging.h"
#include "cohort/engine/hosts_engine.h"
#include "cohort/engine/ssh_server_test.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::chrono::milliseconds kShortWhile{10};

SshServer& ssh_server() {
  static SshServer server;
  return server;
}

fs::path ssh_cohort() {
  const char* folder = std::getenv("COHORT_BIN_DIR");
  return fs::absolute(fs::path(folder ? folder : "build/bin") / "cohort");
}

std::vector<std::string> ssh_words(const std::string& hosts) {
  return {"--hosts", hosts, "--remote-shell", ssh_server().shell(), "--address", "127.0.0.1"};
}

std::unique_ptr<Engine> ssh_engine(const ScratchFolder&) {
  return std::make_unique<HostsEngine>(ssh_words("node1:3,node2:3"), ssh_cohort());
}

void kill_ssh_claimant(const fs::path& folder) {
  const auto words = split(claimed_by({folder}).value_or(""), ' ');
  ASSERT_EQ(words.size(), 4u);
  ::kill(std::stoi(words[2]), SIGKILL);
}

// An elastic job would leave out hosts that cannot reach 127.0.0.1: its host is this machine.
const EngineUnderTest kSsh{.name = "Ssh",
                           .make = ssh_engine,
                           .elastic_words = {"--hosts", "localhost:3"},
                           .kill_supervisor = kill_ssh_claimant,
                           .missing = SshServer::missing,
                           .killed_submits = 5};

INSTANTIATE_TEST_SUITE_P(OverSsh, EngineConformance, ::testing::Values(kSsh),
                         [](const auto& info) { return info.param.name; });

class SshAttempts : public EngineConformance {
 protected:
  // One task on each of these hosts.
  AttemptRequest on_hosts(AttemptRequest request, const std::vector<std::string>& hosts) {
    request.job.run_words = {"-n", std::to_string(hosts.size()), "--grace",
                             "1",  "--slots-per-host",           "1"};
    const auto words = ssh_words(join(hosts, ","));
    request.job.run_words.insert(request.job.run_words.end(), words.begin(), words.end());
    return request;
  }

  std::string failure_on(const std::vector<std::string>& hosts,
                         const std::vector<std::string>& more = {}) {
    AttemptRequest request = on_hosts(shell_job("echo ran > \"$COHORT_OUTPUT/ran\""), hosts);
    request.job.run_words.insert(request.job.run_words.end(), more.begin(), more.end());
    engine().submit(request);
    const AttemptStatus status = wait_for(request, AttemptState::failed);
    EXPECT_FALSE(fs::exists(request.output / "ran")) << "a task was started";
    return status.failure;
  }

  // A program `cohort` in the PATH of one host.
  static void put_cohort(int node, const std::string& script) {
    write_file_atomically(ssh_server().home(node) / "bin/cohort", "#!/bin/sh\n" + script + "\n",
                          0755);
  }
  static std::string real_cohort() { return fmt::format("exec {} \"$@\"", ssh_cohort().string()); }
};
INSTANTIATE_TEST_SUITE_P(OverSsh, SshAttempts, ::testing::Values(kSsh));

TEST_P(SshAttempts, EachHostByNameGetsItsTaskAndTheSource) {
  const AttemptRequest request =
      on_hosts(shell_job("echo on $(basename $HOME) in $(basename $PWD)"), {"node1", "node2"});
  engine().submit(request);
  const AttemptStatus status = wait_for(request, AttemptState::succeeded);
  ASSERT_EQ(status.tasks.size(), 2u);
  for (const int node : {1, 2}) {
    EXPECT_EQ(status.tasks[static_cast<std::size_t>(node) - 1].host, fmt::format("node{}", node));
    EXPECT_EQ(whole_log(request, fmt::format("worker:{}", node - 1)),
              fmt::format("on home{} in {}\n", node, request.job.spec.source));
    EXPECT_TRUE(fs::is_directory(ssh_server().home(node) / ".cache/cohort/sources" /
                                 request.job.spec.source));
  }
}

TEST_P(SshAttempts, AHostKeyThatIsNotTheKnownOneIsRefusedWithWhatToDo) {
  const std::string failure = failure_on({"node1", "stranger", "changed"});
  EXPECT_THAT(failure, Not(HasSubstr("node1:")));
  EXPECT_THAT(failure, HasSubstr("stranger: its host key is not known here (compare and accept it "
                                 "once with `ssh stranger true`)"));
  EXPECT_THAT(failure, AllOf(HasSubstr("changed: its host key is not the one that is known"),
                             HasSubstr("ssh-keygen -R changed")));
}

TEST_P(SshAttempts, HostsThatHangOrAreGoneAreNamedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string failure = failure_on({"hangs", "node1", "gone"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSanitized ? 40 : 15));
  EXPECT_THAT(failure, AllOf(HasSubstr("hangs: it cannot be reached: "), HasSubstr("timed out")));
  EXPECT_THAT(failure, AllOf(HasSubstr("gone: it cannot be reached: "), HasSubstr("refused")));
  EXPECT_THAT(failure, Not(HasSubstr("node1:")));
}

TEST_P(SshAttempts, WhatOneHostLacksIsSaidWithItsName) {
  put_cohort(1, real_cohort());
  fs::remove(ssh_server().home(2) / "bin/cohort");
  const std::vector<std::string> by_path = {"--remote-cohort", "cohort"};
  EXPECT_THAT(failure_on({"node1", "node2"}, by_path),
              AllOf(HasSubstr("node2: it has no program 'cohort'"), Not(HasSubstr("node1:"))));
  put_cohort(2, R"(echo '{"cohort": "0.0.1", "source": true, "missing": []}')");
  EXPECT_THAT(
      failure_on({"node1", "node2"}, by_path),
      HasSubstr(fmt::format("node2: its Cohort is of version 0.0.1, this one is {}", kVersion)));
}

TEST_P(SshAttempts, DataThatOneHostLacksIsSaidAndTheProgramIsFoundInThePath) {
  for (const int node : {1, 2}) put_cohort(node, "cd; " + real_cohort());
  std::ofstream(ssh_server().home(1) / "data") << "x";
  AttemptRequest request = on_hosts(shell_job("echo ran"), {"node1", "node2"});
  request.job.run_words.insert(request.job.run_words.end(), {"--remote-cohort", "cohort"});
  request.job.spec.inputs = {{"training", "/proc/self/cwd/data"}};
  AttemptRequest again = request;
  engine().submit(request);
  EXPECT_THAT(wait_for(request, AttemptState::failed).failure,
              AllOf(HasSubstr("node2: the data of input 'training'"), Not(HasSubstr("node1:"))));
  std::ofstream(ssh_server().home(2) / "data") << "x";
  again.folder = request.folder.parent_path() / "2";
  engine().submit(again);
  wait_for(again, AttemptState::succeeded);
  EXPECT_EQ(whole_log(again, "worker:1"), "ran\n");
}

TEST_P(SshAttempts, SixtyFourHostsByNameStartInTime) {
  std::vector<std::string> hosts;
  for (int i = 1; i <= 64; ++i) hosts.push_back(fmt::format("w{}", i));
  const AttemptRequest first = on_hosts(shell_job("echo here"), {"w1"});  // they share a home
  engine().submit(first);
  wait_for(first, AttemptState::succeeded);
  const AttemptRequest request = on_hosts(shell_job("echo here"), hosts);
  const auto begin = std::chrono::steady_clock::now();
  engine().submit(request);
  const auto deadline = Deadline::after(std::chrono::seconds(120));  // one machine plays them all
  while (!deadline.expired() && !has_ended(engine().observe(request.folder).state))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const AttemptStatus status = wait_for(request, AttemptState::succeeded);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_EQ(status.tasks.size(), 64u);
  EXPECT_EQ(whole_log(request, "worker:63"), "here\n");
}

// The command lines of all processes.
std::string command_lines() {
  std::string lines;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    lines.append(std::istreambuf_iterator<char>(file), {});
  }
  return lines;
}

// Of the job here, or of anything on the hosts, such as the daemons of mpirun.
bool anything_runs_of(const AttemptRequest& request) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& mark :
         {"COHORT_JOB=" + request.job.spec.name, "HOME=" + ssh_server().home(1).string(),
          "HOME=" + ssh_server().home(2).string()})
      if (environment.find(mark) != std::string::npos) return true;
  }
  return false;
}

void expect_nothing_left(const AttemptRequest& request) {
  const auto deadline = Deadline::after(std::chrono::seconds(kSanitized ? 60 : 20));
  while (anything_runs_of(request) && !deadline.expired()) std::this_thread::sleep_for(kShortWhile);
  EXPECT_FALSE(anything_runs_of(request));
}

// Two ranks on each of two hosts.
AttemptRequest mpi_over_ssh(AttemptRequest request) {
  request.job.spec.distribution = jobspec::Distribution::mpi;
  request.job.spec.mpi.processes_per_host = 2;
  request.job.instances = 2;
  request.job.processes = 4;
  request.job.mpirun_words = {"-np", "4"};
  request.job.run_words = {"-n", "1", "--grace", "2"};
  const auto words = ssh_words("node1:2,node2:2");
  request.job.run_words.insert(request.job.run_words.end(), words.begin(), words.end());
  return request;
}

constexpr const char* kTellPidAndWait = "echo pid $$; exec sleep 600";

class MpiOverSsh : public SshAttempts {
 protected:
  void SetUp() override {
    SshAttempts::SetUp();
    if (std::system("command -v mpirun > /dev/null") != 0)
      GTEST_SKIP() << "Open MPI is not installed";
  }

  // Of the program of a rank, which said it.
  pid_t pid_of(const AttemptRequest& request, const std::string& rank) {
    wait_for_log(request, rank, "\n");
    const std::string log = engine().read_log(request.folder, rank, 0, 1000).bytes;
    return std::stoi(log.substr(log.find("pid ") + 4));
  }
};
INSTANTIATE_TEST_SUITE_P(OverSsh, MpiOverSsh, ::testing::Values(kSsh));

TEST_P(MpiOverSsh, RanksRunOnBothHostsAndTellNoSecret) {
  AttemptRequest request = mpi_over_ssh(shell_job(
      "echo rank $OMPI_COMM_WORLD_RANK at home in $(basename $HOME) with ${#TOKEN} letters; "
      "while [ ! -e \"$COHORT_OUTPUT/go\" ]; do sleep 0.05; done"));
  request.job.env = {{"TOKEN", "not-for-others-to-see"}};
  engine().submit(request);
  for (const char* rank : {"rank:0", "rank:1", "rank:2", "rank:3"})
    wait_for_log(request, rank, "letters\n");
  EXPECT_THAT(command_lines(), Not(HasSubstr("not-for-others-to-see")));
  std::ofstream(request.output / "go") << "";
  wait_for(request, AttemptState::succeeded);
  EXPECT_EQ(whole_log(request, "rank:0"), "rank 0 at home in home1 with 21 letters\n");
  EXPECT_EQ(whole_log(request, "rank:3"), "rank 3 at home in home2 with 21 letters\n");
  EXPECT_THAT(read_file(AttemptFolder{request.folder}.supervisor_log()),
              Not(HasSubstr("not-for-others-to-see")));
  expect_nothing_left(request);
}

TEST_P(MpiOverSsh, ARankThatIsKilledIsNamedAndNothingIsLeft) {
  const AttemptRequest request = mpi_over_ssh(shell_job(kTellPidAndWait));
  engine().submit(request);
  ::kill(pid_of(request, "rank:3"), SIGKILL);
  const AttemptStatus status = wait_for(request, AttemptState::failed);
  EXPECT_THAT(status.failure, HasSubstr("rank 3 was killed by signal 9 (SIGKILL)"));
  EXPECT_EQ(status.tasks.at(3).state, "failed");
  EXPECT_EQ(status.tasks.at(3).exit_code, 137);
  expect_nothing_left(request);
}

TEST_P(MpiOverSsh, NothingIsLeftWhenMpirunIsKilled) {
  const AttemptRequest request = mpi_over_ssh(shell_job(kTellPidAndWait));
  engine().submit(request);
  for (const char* rank : {"rank:0", "rank:1", "rank:2", "rank:3"}) pid_of(request, rank);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::string host_file = AttemptFolder{request.folder}.host_file().string();
    if (line.starts_with(std::string("mpirun\0", 7)) && line.find(host_file) != line.npos)
      ::kill(std::stoi(entry.path().filename().string()), SIGKILL);
  }
  wait_for(request, AttemptState::failed);
  expect_nothing_left(request);
}

TEST_P(MpiOverSsh, NothingIsLeftWhenTheJobIsStopped) {
  const AttemptRequest request = mpi_over_ssh(shell_job(kTellPidAndWait));
  engine().submit(request);
  for (const char* rank : {"rank:0", "rank:1", "rank:2", "rank:3"}) pid_of(request, rank);
  engine().stop(request.folder);
  wait_for(request, AttemptState::stopped);
  expect_nothing_left(request);
}

TEST(MissingForHosts, NamesEachHostThatCannotRunJobs) {
  if (const std::string why = SshServer::missing(); !why.empty()) GTEST_SKIP() << why;
  launch::JobOptions asked;
  EXPECT_THAT(missing_for_hosts(asked), ElementsAre(HasSubstr("no hosts are named")));
  asked.remote = {.shell = ssh_server().shell(), .cohort = ssh_cohort().string()};
  asked.hosts = {{"node1", 1}, {"gone", 1}};
  EXPECT_THAT(missing_for_hosts(asked), ElementsAre(HasSubstr("gone: it cannot be reached")));
  asked.hosts = {{"node1", 1}, {"node2", 1}};
  EXPECT_THAT(missing_for_hosts(asked), IsEmpty());
}

}  // namespace
}  // namespace cohort::engine
