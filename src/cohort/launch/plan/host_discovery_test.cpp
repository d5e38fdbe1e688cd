#include "cohort/launch/plan/host_discovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(DiscoveredHosts, AreHostsWithOrWithoutSlots) {
  EXPECT_EQ(parse_discovered_hosts("node1:4\n\n# spare\nnode2 \r\nnode1:4\n10.0.0.7:2", 3),
            (std::vector<Host>{{"node1", 4}, {"node2", 3}, {"10.0.0.7", 2}}));
  EXPECT_TRUE(parse_discovered_hosts("", 1).empty());
}

TEST(DiscoveredHosts, AreRefusedWithTheirLine) {
  auto refusal = [](const char* text) {
    return message_of<InvalidInput>([&] { parse_discovered_hosts(text, 1); });
  };
  EXPECT_THAT(refusal("a\nb:x\n"), HasSubstr("line 2: 'x' is not a number of slots for host 'b'"));
  EXPECT_THAT(refusal("a:0"), HasSubstr("line 1: '0' is not a number of slots"));
  EXPECT_THAT(refusal("a\n\nb c\n"), HasSubstr("line 3: 'b c' is no name of a host"));
  EXPECT_THAT(refusal("-oProxyCommand=x"), HasSubstr("line 1: '-oProxyCommand=x' is no name"));
  EXPECT_THAT(refusal("a:1\nb\na:2"),
              HasSubstr("line 3: host 'a' is named again with 2 slots instead of 1"));
}

// Runs a discovery on a loop of its own and keeps the lists that it told.
class Discovery : public testing::Test {
 protected:
  std::filesystem::path script(const std::string& text) {
    auto path = folder_ / "hosts.sh";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }

  void start(const std::string& text, std::chrono::milliseconds limit = 10s) {
    HostDiscoveryOptions options{.script = script(text),
                                 .slots_per_host = 2,
                                 .environment = cluster::Environment::of_this_process(),
                                 .period = 20ms,
                                 .limit = limit};
    options.environment["FOLDER"] = folder_.path();
    discovery_.emplace(options, loop_, [this](const auto& hosts) { lists_.push_back(hosts); });
  }

  void run_until(const std::function<bool()>& condition) {
    Deadline deadline = Deadline::after(20s);
    while (!condition()) {
      ASSERT_FALSE(deadline.expired());
      loop_.run_once(Deadline::after(10ms));
    }
  }
  void run_for(std::chrono::milliseconds time) {
    for (Deadline deadline = Deadline::after(time); !deadline.expired();) loop_.run_once(deadline);
  }
  // From here on what is logged can be looked at.
  void listen() {
    old_stderr_.reset(::dup(STDERR_FILENO));
    UniqueFd file(::open((folder_ / "stderr").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600));
    ::dup2(file.get(), STDERR_FILENO);
  }
  std::string words() { return read_file(folder_ / "stderr"); }
  void run_until_said(const std::string& text) {
    run_until([&] { return words().find(text) != std::string::npos; });
  }
  ~Discovery() override {
    if (old_stderr_) ::dup2(old_stderr_.get(), STDERR_FILENO);
  }
  // Each run of the script appends a line to the file `runs`: waits for `count` more.
  void run_scripts(std::uintmax_t count) {
    const auto size = [&] {
      return has("runs") ? std::filesystem::file_size(folder_ / "runs") : 0;
    };
    const auto before = size();
    run_until([&] { return size() >= before + 2 * count; });
  }
  bool has(const std::string& file) { return std::filesystem::exists(folder_ / file); }
  void put(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / (file + ".new")) << text;
    std::filesystem::rename(folder_ / (file + ".new"), folder_ / file);
  }

  ScratchFolder folder_;
  UniqueFd old_stderr_;
  EventLoop loop_;
  std::optional<HostDiscovery> discovery_;
  std::vector<std::vector<Host>> lists_;
};

TEST_F(Discovery, TellsTheFirstListAndChangesOnly) {
  put("list", "a:1\nb\n");
  start("cat $FOLDER/list; echo x >> $FOLDER/runs");
  run_until([&] { return lists_.size() == 1; });
  EXPECT_EQ(lists_[0], (std::vector<Host>{{"a", 1}, {"b", 2}}));
  put("list", "b\na:1\n");  // another order is no change
  run_scripts(3);
  EXPECT_EQ(lists_.size(), 1u);
  put("list", "b:2\n");
  run_until([&] { return lists_.size() == 2; });
  EXPECT_EQ(lists_[1], (std::vector<Host>{{"b", 2}}));
  put("list", "");
  run_until([&] { return lists_.size() == 3; });
  EXPECT_TRUE(lists_[2].empty());
}

TEST_F(Discovery, KeepsTheLastListOfAScriptThatFailsAndWarnsOnce) {
  put("list", "a\n");
  start(
      "echo x >> $FOLDER/runs; test -e $FOLDER/list || { echo no answer from the queue >&2; exit "
      "3; };"
      " cat $FOLDER/list");
  run_until([&] { return lists_.size() == 1; });
  listen();
  std::filesystem::rename(folder_ / "list", folder_ / "away");
  run_scripts(4);
  std::filesystem::rename(folder_ / "away", folder_ / "list");
  run_until_said("answers again");
  const std::string said = words();
  EXPECT_THAT(said, HasSubstr("failed: exit code 3: no answer from the queue; the hosts that it "
                              "named last still count"));
  EXPECT_EQ(said.find("failed"), said.rfind("failed"));
  EXPECT_EQ(lists_.size(), 1u);
}

TEST_F(Discovery, KillsASlowScriptAndWhatItStarted) {
  listen();
  start("sleep 1000 & echo $! > $FOLDER/child.new; mv $FOLDER/child.new $FOLDER/child; wait",
        200ms);
  run_until([&] { return discovery_->pid() > 0 && has("child"); });
  pid_t child = 0;
  std::ifstream(folder_ / "child") >> child;
  run_until([&] { return ::kill(child, 0) != 0; });
  run_until_said("it did not end within 0.2 s; no hosts are known yet");
  EXPECT_TRUE(lists_.empty());
}

TEST_F(Discovery, StopsReadingAScriptThatPrintsWithoutEnd) {
  listen();
  start("yes node1");
  run_until_said("it printed more than 1048576 bytes");
  EXPECT_TRUE(lists_.empty());
}

TEST_F(Discovery, RefusesGarbageWithItsLine) {
  listen();
  start("printf 'node1\\n\\001\\002%%$\\n'");
  run_until_said("line 2: ");
  EXPECT_TRUE(lists_.empty());
}

TEST_F(Discovery, SurvivesAScriptThatIsTakenAway) {
  put("list", "a\n");
  start("cat $FOLDER/list");
  run_until([&] { return lists_.size() == 1; });
  listen();
  std::filesystem::remove(folder_ / "hosts.sh");
  run_until_said("failed: ");
  script("echo b");
  run_until([&] { return lists_.size() == 2; });
  run_until_said("answers again");
}

TEST_F(Discovery, RefusesAScriptThatIsNotThere) {
  HostDiscoveryOptions options{.script = folder_ / "none"};
  EXPECT_THAT(message_of<InvalidInput>([&] { HostDiscovery(options, loop_, {}); }),
              HasSubstr("not found"));
}

TEST_F(Discovery, TellsAFixedListOnce) {
  HostDiscoveryOptions options{.hosts = {{"a", 3}, {"b", std::nullopt}}, .slots_per_host = 2};
  discovery_.emplace(options, loop_, [this](const auto& hosts) { lists_.push_back(hosts); });
  EXPECT_TRUE(lists_.empty());
  run_for(100ms);
  EXPECT_EQ(lists_, (std::vector<std::vector<Host>>{{{"a", 3}, {"b", 2}}}));
}

TEST_F(Discovery, MayBeDestroyedFromItsCallback) {
  HostDiscoveryOptions options{.script = script("echo a"),
                               .environment = cluster::Environment::of_this_process(),
                               .period = 1ms};
  int calls = 0;
  discovery_.emplace(options, loop_, [&](const auto&) {
    ++calls;
    discovery_.reset();
  });
  run_until([&] { return calls > 0; });
  run_for(50ms);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace cohort::launch
