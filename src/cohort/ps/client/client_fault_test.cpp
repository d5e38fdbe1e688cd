// The client against servers that are processes of their own, and die.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fstream>
#include <future>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/text.h"
#include "cohort/ps/client/client_servers_test.h"

extern char** environ;

namespace cohort::ps {
namespace {

constexpr int kMemoryFd = 50;
constexpr const char* kServerVariable = "COHORT_TEST_SERVER";  // number, job, durability, ports

// Not a test of its own: ServerProcesses starts this program with it.
TEST(ServerProcess, Serves) {
  const char* text = std::getenv(kServerVariable);
  if (text == nullptr) GTEST_SKIP() << "only for other tests";
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no other process would end it
  const auto words = split(text, ' ');
  ServerOptions options;
  options.server = static_cast<int>(parse_unsigned(words[0]).value());
  options.job = words[1];
  options.durability = parse_durability(words[2]);
  for (std::size_t i = 3; i < words.size(); ++i)
    options.servers.push_back({"127.0.0.1", static_cast<int>(parse_unsigned(words[i]).value())});
  if (options.durability == Durability::process) options.memory = UniqueFd(kMemoryFd);
  Server(std::move(options)).run();
}

class ServerProcesses {
 public:
  explicit ServerProcesses(int count, std::string durability = "process")
      : addresses(free_addresses(count)),
        job_(fmt::format("faults-{}-{}", ::getpid(), addresses[0].port)),
        durability_(std::move(durability)) {
    for (int server = 0; server < count; ++server) {
      memory_.emplace_back(::memfd_create("test-keep", MFD_CLOEXEC));
      pids_.push_back(-1);
      start(server);
    }
  }
  ~ServerProcesses() {
    for (std::size_t server = 0; server < pids_.size(); ++server) kill(static_cast<int>(server));
  }

  void start(int server) {
    std::string words = fmt::format("{}={} {} {}", kServerVariable, server, job_, durability_);
    for (const auto& address : addresses) words += fmt::format(" {}", address.port);
    std::vector<char*> variables{words.data()};
    for (char** one = environ; *one != nullptr; ++one)
      if (!std::string_view(*one).starts_with("GTEST_")) variables.push_back(*one);  // shards
    variables.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=ServerProcess.Serves",
                brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, memory_[static_cast<std::size_t>(server)].get(),
                                     kMemoryFd);
    pid_t pid = -1;
    ASSERT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, variables.data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    pids_[static_cast<std::size_t>(server)] = pid;
  }
  void kill(int server) {
    pid_t& pid = pids_[static_cast<std::size_t>(server)];
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }
  void restart(int server) {
    kill(server);
    start(server);
  }

  ClientOptions options(int worker, bool shared_memory) const {
    ClientOptions options;
    options.worker = worker;
    options.servers = addresses;
    options.job = job_;
    options.shared_memory = shared_memory;
    return options;
  }

  std::vector<cluster::Address> addresses;

 private:
  std::string job_;
  std::string durability_;
  std::vector<UniqueFd> memory_;
  std::vector<pid_t> pids_;
};

class ClientFaultTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, ClientFaultTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Local" : "Tcp");
});

// The servers' sockets in the abstract namespace of this host, of all jobs.
std::vector<std::string> local_names() {
  std::vector<std::string> names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (const auto at = line.find("@cohort-ps/"); at != std::string::npos)
      names.push_back(line.substr(at + 1));
  return names;
}

TEST(ClientFaults, TheNameOfADeadServersSocketIsOfNoUseToOthers) {
  ServerProcesses servers(1);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, true));
  worker.begin();
  worker.step();
  const auto before = local_names();
  ASSERT_FALSE(before.empty());
  servers.kill(0);
  std::vector<UniqueFd> taken;  // and what connects to them is not accepted
  for (const std::string& name : before) try {
      taken.push_back(listen_on(Endpoint::unix_abstract(name)));
    } catch (const SystemError&) {  // another job's, in use
    }
  ASSERT_FALSE(taken.empty());
  servers.start(0);
  worker.step();
  EXPECT_TRUE(equal(worker.values, example.reference(2)));
}

TEST(ClientFaults, WhoTakesADeadServersPortDelaysAWorkerOnly) {
  ServerProcesses servers(1);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, true));
  worker.begin();
  servers.kill(0);
  UniqueFd port = listen_on(Endpoint::tcp("127.0.0.1", servers.addresses[0].port));
  auto stepped = std::async(std::launch::async, [&] { worker.step(); });
  for (int tries = 0; tries < 2; ++tries) {  // it tries again after the first
    pollfd wanted{port.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&wanted, 1, 10'000), 1);
    const UniqueFd peer = accept_ready(port.get());
    const std::string nonsense(4096, 'x');
    ASSERT_GT(::send(peer.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
  }
  port.reset();
  servers.start(0);
  stepped.get();
  EXPECT_TRUE(equal(worker.values, example.reference(1)));
}

TEST_P(ClientFaultTest, KilledServersDelayATrainingAndChangeNothing) {
  ServerProcesses servers(2);
  Example example(2);
  std::atomic<std::uint64_t> reconnects{0};
  constexpr int kRounds = 6;
  constexpr int kSteps = 4 * (kRounds + 1) + 2;
  std::atomic<int> round_begun{0};  // in which servers die during the next four steps
  std::atomic<int> steps_done{0};   // of both workers
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      ExampleWorker worker(example, servers.options(rank, GetParam()));
      worker.begin();
      for (int step = 0; step < kSteps; ++step) {
        for (int seen = round_begun; seen < step / 4; seen = round_begun) round_begun.wait(seen);
        worker.step();
        ++steps_done;
        steps_done.notify_all();
      }
      EXPECT_TRUE(equal(worker.values, example.reference(kSteps))) << "worker " << rank;
      reconnects += worker.client->reconnects();
    });
  std::mt19937 random(GetParam() ? 1 : 2);
  int kills = 0;
  const auto begin_round = [&](int round) {
    round_begun = round;
    round_begun.notify_all();
  };
  for (int round = 1; round <= kRounds; ++round) {
    begin_round(round);
    for (int seen = steps_done; seen < 8 * (round - 1) + 2; seen = steps_done)
      steps_done.wait(seen);
    // At any instant of the steps: chance, not order.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    servers.restart(round % 2);
    ++kills;
    if (round % 3 == 0) {  // both, one after the other
      servers.restart(1 - round % 2);
      ++kills;
    }
  }
  begin_round(kRounds + 1);
  for (auto& thread : threads) thread.join();
  EXPECT_GE(reconnects, static_cast<std::uint64_t>(kills));
}

TEST_P(ClientFaultTest, TwoRestartsInARowAreOneDelay) {
  ServerProcesses servers(1);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, GetParam()));
  worker.begin();
  worker.step();
  worker.push(1);
  servers.restart(0);
  servers.restart(0);
  worker.finish();
  EXPECT_TRUE(equal(worker.values, example.reference(2)));
}

TEST_P(ClientFaultTest, AServerThatDiesWhileItGetsItsModelGetsItAgain) {
  ServerProcesses servers(2);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, GetParam()));
  InitialState initial = example.initial_state();
  int reads = 0;
  initial.read = [&, inner = initial.read](int block, int slot, std::uint64_t offset,
                                           std::uint64_t elements, std::byte* to) {
    if (++reads == 2) servers.restart(0);
    if (reads == 4) servers.restart(1);
    inner(block, slot, offset, elements, to);
  };
  EXPECT_EQ(worker.client->begin(example.spec, &initial, soon()), 0u);
  EXPECT_GE(reads, 4);
  worker.client->read(worker.runs, 0, soon());
  EXPECT_TRUE(equal(worker.values, example.reference(0)));
  worker.step();
  EXPECT_TRUE(equal(worker.values, example.reference(1)));
}

// A chief that is gone when it returns.
void make_first_step(const Example& example, const ClientOptions& options) {
  ExampleWorker worker(example, options);
  worker.begin();
  worker.step();
}

// Takes the next connection to a dead server's port and closes it.
bool turn_one_away(int listener) {
  pollfd wanted{listener, POLLIN, 0};
  return ::poll(&wanted, 1, 10'000) == 1 && accept_ready(listener).get() >= 0;
}

// A server that is away when a new chief begins has not lost its model.
TEST_P(ClientFaultTest, AServerThatDiesBeforeANewChiefBeginsIsWaitedFor) {
  ServerProcesses servers(2);
  Example example(1);
  make_first_step(example, servers.options(0, GetParam()));
  ExampleWorker worker(example, servers.options(0, GetParam()));
  servers.kill(1);
  UniqueFd port = listen_on(Endpoint::tcp("127.0.0.1", servers.addresses[1].port));
  ASSERT_TRUE(turn_one_away(port.get())) << "the client has not noticed";
  EXPECT_TRUE(worker.client->servers_have_model());
  auto begun = std::async(std::launch::async, [&] { return worker.begin(); });
  ASSERT_TRUE(turn_one_away(port.get())) << "the client does not try again";
  port.reset();
  servers.start(1);  // on this thread: a server ends with the one that started it
  EXPECT_EQ(begun.get(), 1u);
  worker.step();
  EXPECT_TRUE(equal(worker.values, example.reference(2)));
}

TEST_P(ClientFaultTest, AServerThatForgotTheModelBeforeANewChiefBeginsEndsTheTraining) {
  ServerProcesses servers(2, "none");
  Example example(1);
  make_first_step(example, servers.options(0, GetParam()));
  ExampleWorker worker(example, servers.options(0, GetParam()));
  servers.restart(1);
  const std::string text = message_of<Error>([&] {
    worker.begin();  // may come before the client has noticed
    worker.step();
  });
  EXPECT_NE(text.find("has lost the model"), std::string::npos) << text;
}

TEST_P(ClientFaultTest, ASnapshotBeginsAnewWhenAServerIsLost) {
  ServerProcesses servers(2);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, GetParam()));
  worker.begin();
  worker.step();
  std::vector<std::vector<float>> values{std::vector<float>(worker.values[0].size()),
                                         std::vector<float>(worker.values[1].size())};
  int restarts = 0;
  bool killed = false;
  std::uint64_t elements_seen = 0;
  StateSink sink;
  sink.slice = [&](int block, int, std::uint64_t offset, std::uint64_t elements, std::uint64_t,
                   const std::byte* from) {
    // The other server has been asked by now, and its copy is on its way or lost.
    if (!std::exchange(killed, true)) {
      servers.restart(0);
      servers.restart(1);
    }
    elements_seen += elements;
    std::copy_n(reinterpret_cast<const float*>(from), elements,
                values[static_cast<std::size_t>(block)].begin() + static_cast<long>(offset));
  };
  sink.restart = [&] {
    ++restarts;
    elements_seen = 0;
  };
  worker.client->snapshot(sink, soon());
  EXPECT_EQ(elements_seen, worker.values[0].size() + worker.values[1].size());
  EXPECT_TRUE(equal(values, example.reference(1)));
  worker.step();
  EXPECT_TRUE(equal(worker.values, example.reference(2)));
  EXPECT_LE(restarts, 2);
}

TEST_P(ClientFaultTest, RowsSurviveARestart) {
  ServerProcesses servers(2);
  Example example(1);
  example.spec.tables.push_back({.name = "users", .dimension = 2});
  ExampleWorker worker(example, servers.options(0, GetParam()));
  worker.begin();
  const std::vector<std::uint64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> before(16), after(16), gradients(16, 1);
  worker.client->pull_rows(0, keys, 1, before.data(), soon());
  worker.push(0);
  servers.restart(0);
  worker.client->push_rows(0, keys, gradients);
  servers.restart(1);
  worker.finish();
  servers.restart(0);
  worker.client->pull_rows(0, keys, 2, after.data(), soon());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i] - 0.5f) << i;
}

TEST_P(ClientFaultTest, AServerThatForgotTheModelEndsTheTraining) {
  ServerProcesses servers(1, "none");
  Example example(1);
  ExampleWorker worker(example, servers.options(0, GetParam()));
  worker.begin();
  worker.step();
  servers.restart(0);
  worker.push(1);
  const std::string text = message_of<Error>([&] { worker.finish(); });
  EXPECT_NE(text.find("has lost the model"), std::string::npos) << text;
  EXPECT_NE(text.find("durability"), std::string::npos) << text;
}

TEST_P(ClientFaultTest, AServerThatStaysAwayIsNamedAtTheDeadline) {
  ServerProcesses servers(2);
  Example example(1);
  ExampleWorker worker(example, servers.options(0, GetParam()));
  worker.begin();
  servers.kill(1);
  worker.push(0);
  const std::string text = message_of<TimeoutError>(
      [&] { worker.finish(Deadline::after(std::chrono::milliseconds(500))); });
  EXPECT_NE(text.find("ps/1 at 127.0.0.1:"), std::string::npos) << text;
  EXPECT_NE(text.find("not reachable"), std::string::npos) << text;
  EXPECT_EQ(text.find("ps/0"), std::string::npos) << text;
}

}  // namespace
}  // namespace cohort::ps
