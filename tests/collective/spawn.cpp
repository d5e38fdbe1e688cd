#include "spawn.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "cohort/collective/form.h"
#include "cohort/collective/world.h"
#include "cohort/transport/inproc/messenger.h"
#include "cohort/transport/rendezvous.h"

namespace cohort::collective::testing {

namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 30;

void spawn_inproc(int size, std::chrono::milliseconds timeout, const Body& body) {
  auto groups = make_inproc_groups(size, timeout);
  run_ranks(size, [&](int rank) {
    const std::unique_ptr<Group> group = std::move(groups[rank]);
    body(*group);
  });
}

auto spawn_shm(const TuningTable& tuning) {
  return [tuning](int size, std::chrono::milliseconds timeout, const Body& body) {
    auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
    run_ranks(size, [&](int rank) {
      const auto group = form_group({.rank = rank, .size = size}, rendezvous,
                                    {.timeout = timeout,
                                     .part_bytes = kPartBytes,
                                     .tuning = tuning,
                                     .authenticate = {},
                                     .connect = {}},
                                    Deadline::after(std::chrono::seconds(20)));
      body(*group);
    });
  };
}

// Ranks spread over made-up hosts: rank r on host r % hosts, or, where `blocks`, neighbours
// together. Shared memory inside a host, messages through this process's memory between them.
auto spawn_hosts(int hosts, bool blocks, const TuningTable& tuning = {}) {
  return [=](int size, std::chrono::milliseconds timeout, const Body& body) {
    auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
    std::mutex mutex;
    std::map<std::string, std::vector<std::unique_ptr<transport::Messenger>>> made;  // by group
    const auto connect = [&](const Member& self, const std::string& id, const auto&) {
      std::lock_guard lock(mutex);
      auto& all = made[id];
      if (all.empty()) all = transport::inproc::make_messengers(self.size);
      return std::move(all[self.rank]);
    };
    run_ranks(size, [&](int rank) {
      const int host = blocks ? rank * hosts / size : rank % hosts;
      const auto group = form_group({.rank = rank,
                                     .size = size,
                                     .task = {},
                                     .host = "host" + std::to_string(host),
                                     .host_identity = "identity" + std::to_string(host)},
                                    rendezvous,
                                    {.timeout = timeout,
                                     .part_bytes = kPartBytes,
                                     // Only rank 0's counts.
                                     .tuning = rank == 0 ? tuning : TuningTable{},
                                     .authenticate = {},
                                     .connect = connect},
                                    Deadline::after(std::chrono::seconds(20)));
      body(*group);
    });
  };
}

// The same over TCP on loopback, with a secret; each rank on a host of its own or in blocks.
auto spawn_tcp(int hosts, bool tls, int streams, const TuningTable& tuning = {}) {
  return [=](int size, std::chrono::milliseconds timeout, const Body& body) {
    auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
    FormOptions options{
        .timeout = timeout, .part_bytes = kPartBytes, .authenticate = {}, .connect = {}};
    use_network(options,
                {.secret = Secret::generate(), .tls = tls, .streams = streams, .tuning = tuning});
    run_ranks(size, [&](int rank) {
      const int host = hosts < size ? rank * hosts / size : rank;
      const auto group = form_group({.rank = rank,
                                     .size = size,
                                     .task = "worker/" + std::to_string(rank),
                                     .host = "host" + std::to_string(host),
                                     .host_identity = "identity" + std::to_string(host)},
                                    rendezvous, options, Deadline::after(std::chrono::seconds(20)));
      body(*group);
    });
  };
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Factory& factory) { return out << factory.name; }

std::vector<Factory> all_factories() {
  TuningTable reduce_scatter;
  reduce_scatter.inlined = reduce_scatter.exchange_all = reduce_scatter.recursive_doubling =
      reduce_scatter.flat_broadcast = {};
  TuningTable doubling = reduce_scatter;  // with binomial broadcasts
  doubling.recursive_doubling = {{2, TuningTable::kMaxSmall}};
  TuningTable exchange_all = reduce_scatter;
  exchange_all.exchange_all = {{2, TuningTable::kMaxSmall}};
  exchange_all.flat_broadcast = {{2, std::size_t{1} << 40}};
  return {{"inproc", spawn_inproc},
          {"shm", spawn_shm({})},
          {"two_hosts", spawn_hosts(2, true)},
          {"two_hosts_interleaved", spawn_hosts(2, false)},
          {"a_host_each", spawn_hosts(64, false)},
          {"tcp", spawn_tcp(64, false, 0)},
          {"tcp_two_hosts", spawn_tcp(2, false, 2)},
          {"tls", spawn_tcp(64, true, 0)},
          {"shm_never_inlined", spawn_shm(reduce_scatter)},
          {"two_hosts_reduce_scatter", spawn_hosts(2, true, reduce_scatter)},
          {"a_host_each_reduce_scatter", spawn_hosts(64, false, reduce_scatter)},
          {"two_hosts_exchange_all", spawn_hosts(2, true, exchange_all)},
          {"three_hosts_interleaved_exchange_all", spawn_hosts(3, false, exchange_all)},
          {"a_host_each_exchange_all", spawn_hosts(64, false, exchange_all)},
          {"three_hosts_recursive_doubling", spawn_hosts(3, true, doubling)},
          {"three_hosts_interleaved_recursive_doubling", spawn_hosts(3, false, doubling)},
          {"a_host_each_recursive_doubling", spawn_hosts(64, false, doubling)},
          {"tcp_recursive_doubling", spawn_tcp(64, false, 0, doubling)}};
}

void run_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cohort::collective::testing
