// The store with as many clients as a large job has: threads of one process, and processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/process/limits.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::cluster {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

TEST(StoreMany, AThousandClientsMeetAndSeeWhatTheOthersWrote) {
  constexpr int kClients = 1000;
  raise_file_limit(4 * kClients);
  Secret secret = Secret::generate();
  StoreServer server(StoreServerOptions{.secret = secret});
  std::atomic<int> right = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back([&, i] {
      try {
        auto name = fmt::format("worker/{}", i);
        auto client = StoreClient::connect(
            {.address = server.address(), .secret = secret, .name = name}, soon());
        client->set("member/" + name, std::to_string(i), soon());
        client->barrier("all", kClients, soon());
        int next = (i + 1) % kClients;
        auto seen = client->try_get(fmt::format("member/worker/{}", next), soon());
        if (seen == std::to_string(next)) ++right;
        client->barrier("end", kClients, soon());
      } catch (const Error& error) {
        ++failed;
        ADD_FAILURE() << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, kClients);
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(server.wait_for_clients_at_most(0, soon()));
}

// Forks before this process has threads; runs `body(index)` in each child and returns their pids.
std::vector<pid_t> fork_children(int count, const std::function<int(int)>& body) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    pid_t pid = ::fork();
    if (pid == 0) {
      int code = 9;
      try {
        code = body(i);
      } catch (const std::exception& error) {
        fmt::print(stderr, "child {}: {}\n", i, error.what());
      }
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  return pids;
}

Address free_address() { return StoreServer().address(); }

int exit_code(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StoreMany, SixtyFourProcessesMeet) {
  constexpr int kProcesses = 64;
  Secret secret = Secret::generate();
  Address address = free_address();
  auto pids = fork_children(kProcesses, [&](int i) {
    auto client = StoreClient::connect(
        {.address = address, .secret = secret, .name = std::to_string(i)}, soon());
    client->add("sum", i, soon());
    client->barrier("all", kProcesses, soon());
    return client->get("sum", soon()) == "2016" ? 0 : 1;
  });
  StoreServer server(StoreServerOptions{.bind = address, .secret = secret});
  for (pid_t pid : pids) EXPECT_EQ(exit_code(pid), 0);
}

TEST(StoreMany, AProcessKilledInABarrierFailsItForTheOthersByName) {
  constexpr int kProcesses = 8;
  Secret secret = Secret::generate();
  Address address = free_address();
  std::vector<std::string> members;
  for (int i = 0; i <= kProcesses; ++i) members.push_back(fmt::format("worker/{}", i));
  auto pids = fork_children(kProcesses, [&](int i) {
    auto client = StoreClient::connect(
        {.address = address, .secret = secret, .name = fmt::format("worker/{}", i)}, soon());
    client->add("here", 1, soon());
    try {
      client->barrier("all", kProcesses + 1, soon(), {.member = "", .members = members});
    } catch (const PeerError& error) {
      return std::string(error.what()).find("worker/3 left") != std::string::npos ? 0 : 1;
    }
    return 2;
  });
  StoreServer server(StoreServerOptions{.bind = address, .secret = secret});
  auto client = StoreClient::connect({.address = address, .secret = secret, .name = "t"}, soon());
  client->wait_counter("here", kProcesses, soon());
  auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(pids[3], SIGKILL), 0);
  for (int i = 0; i < kProcesses; ++i) {
    if (i == 3) {
      EXPECT_EQ(exit_code(pids[i]), 128 + SIGKILL);
      continue;
    }
    EXPECT_EQ(exit_code(pids[i]), 0) << "worker/" << i;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace cohort::cluster
