// How long do the tasks of a job take to find each other through the rendezvous store?
// From "go" (the processes or threads exist) to the moment the last one has connected, proven
// itself, written its value, met the others in a barrier, and checked what all of them wrote.
// The server is a process of its own, as it is in a real job.
#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/processes.h"
#include "bench/targets.h"
#include "cohort/base/error.h"
#include "cohort/base/process/limits.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"

namespace {

using namespace cohort;
using namespace cohort::cluster;
using bench::expect_success;
using bench::Pipe;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr int kProcesses = 64;
constexpr int kConnections = 1000;
constexpr int kCalls = 3000;

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Meeting {
  Address store;
  Secret secret;
  std::string name;  // keeps rounds apart
  int size;
};

// What every member does. Throws when it does not see what everyone wrote.
void meet(const Meeting& meeting, int index) {
  auto client = StoreClient::connect(
      {.address = meeting.store, .secret = meeting.secret, .name = std::to_string(index)}, soon());
  client->add(meeting.name + "/sum", index + 1, soon());
  client->barrier(meeting.name + "/all", meeting.size, soon());
  std::int64_t expected = std::int64_t{meeting.size} * (meeting.size + 1) / 2;
  std::string sum = client->get(meeting.name + "/sum", soon());
  if (sum != std::to_string(expected))
    throw Error(fmt::format("member {} saw the sum {}, not {}", index, sum, expected));
}

double meet_as_processes(const Meeting& meeting) {
  Pipe ready, go, through;
  std::vector<pid_t> pids;
  for (int i = 0; i < meeting.size; ++i)
    pids.push_back(bench::fork_process("store_bench", [&, i] {
      go.out.reset();
      char start = 0;
      ready.write(start);
      go.read(start);  // ends when the parent closes its end
      meet(meeting, i);
      through.write(Clock::now());
    }));
  char ignored;
  for (int i = 0; i < meeting.size; ++i) ready.read(ignored);
  auto begin = Clock::now();
  go.out.reset();
  through.out.reset();
  Clock::time_point end = begin, one;
  for (int i = 0; i < meeting.size && through.read(one); ++i) end = std::max(end, one);
  for (pid_t pid : pids) expect_success(pid);
  return std::chrono::duration<double>(end - begin).count();
}

double meet_as_threads(const Meeting& meeting) {
  Pipe result;
  pid_t pid = bench::fork_process("store_bench", [&] {
    raise_file_limit(static_cast<std::uint64_t>(meeting.size) + 256);
    std::atomic<int> failed = 0;
    std::atomic<bool> go = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < meeting.size; ++i)
      threads.emplace_back([&, i] {
        go.wait(false);
        try {
          meet(meeting, i);
        } catch (const Error& error) {
          fmt::print(stderr, "store_bench: {}\n", error.what());
          ++failed;
        }
      });
    auto begin = Clock::now();
    go = true;
    go.notify_all();
    for (auto& thread : threads) thread.join();
    result.write(seconds_since(begin));
    if (failed > 0) throw Error(fmt::format("{} members failed", failed.load()));
  });
  double seconds = 0;
  result.out.reset();
  result.read(seconds);
  expect_success(pid);
  return seconds;
}

struct Latency {
  bench::Spread set, get;
};

Latency measure_latency(const Meeting& meeting) {
  auto client = StoreClient::connect(
      {.address = meeting.store, .secret = meeting.secret, .name = "latency"}, soon());
  std::vector<double> set, get;
  for (int i = 0; i < kCalls; ++i) {
    std::string value = std::to_string(i);
    auto begin = Clock::now();
    client->set("latency", value, soon());
    set.push_back(seconds_since(begin) * 1e6);
    begin = Clock::now();
    std::string seen = client->get("latency", soon());
    get.push_back(seconds_since(begin) * 1e6);
    if (seen != value) throw Error(fmt::format("got {}, not {}", seen, value));
  }
  return {bench::Spread(std::move(set)), bench::Spread(std::move(get))};
}

void print_row(const std::string& what, const std::string& unit, const bench::Spread& spread) {
  fmt::print("{:<34} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g}  {}\n", what, spread.median,
             spread.min, spread.p99, spread.max, unit);
}

void run() {
  Secret secret = Secret::generate();
  Pipe port, end;
  pid_t server = bench::fork_process("store_bench", [&] {
    end.out.reset();
    StoreServer store(StoreServerOptions{.secret = secret});
    port.write(store.address().port);
    char ignored;
    end.read(ignored);
  });
  Address address{"127.0.0.1", 0};
  port.out.reset();
  if (!port.read(address.port)) throw Error("the store did not start");

  std::vector<double> processes, connections;
  for (int round = 0; round < kRounds; ++round) {
    processes.push_back(
        meet_as_processes({address, secret, fmt::format("p{}", round), kProcesses}));
    connections.push_back(
        meet_as_threads({address, secret, fmt::format("c{}", round), kConnections}));
  }
  Latency latency = measure_latency({address, secret, "", 1});
  end.out.reset();
  expect_success(server);

  bench::Spread meet_processes(processes), meet_connections(connections);
  fmt::print("rendezvous store, loopback, authenticated; {} rounds, {} calls\n", kRounds, kCalls);
  fmt::print("{:<34} {:>10} {:>10} {:>10} {:>10}\n", "", "median", "min", "p99", "max");
  print_row(fmt::format("{} processes meet", kProcesses), "s", meet_processes);
  print_row(fmt::format("{} connections meet", kConnections), "s", meet_connections);
  print_row("set, one client", "us", latency.set);
  print_row("get, one client", "us", latency.get);

  bench::Targets targets("store");
  targets.record("meet_64_processes_s", meet_processes);
  targets.record("meet_1000_connections_s", meet_connections);
  targets.record("set_us", latency.set);
  targets.record("get_us", latency.get);
  targets.expect("store_meet_64_processes_s", meet_processes.median, "<", 1);
  targets.expect("store_meet_1000_connections_s", meet_connections.median, "<", 5);
  targets.finish();
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "store_bench: {}\n", error.what());
    return 1;
  }
}
