#include "spawn.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/collective/form.h"
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

void spawn_shm(int size, std::chrono::milliseconds timeout, const Body& body) {
  auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
  run_ranks(size, [&](int rank) {
    const auto group = form_group(
        {.rank = rank, .size = size}, rendezvous,
        {.timeout = timeout, .part_bytes = kPartBytes, .authenticate = {}, .connect = {}},
        Deadline::after(std::chrono::seconds(20)));
    body(*group);
  });
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Factory& factory) { return out << factory.name; }

std::vector<Factory> all_factories() { return {{"inproc", spawn_inproc}, {"shm", spawn_shm}}; }

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
