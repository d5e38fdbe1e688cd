#include "cohort/collective/native/host_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cohort::collective {
namespace {

Placement placement_of(std::vector<int> host_of) {
  Placement placement;
  placement.peers.resize(host_of.size());
  placement.host_of = std::move(host_of);
  return placement;
}

Call call_of(CallKind kind, DataType type, std::size_t count) {
  Call call;
  call.kind = kind;
  call.dtype = type;
  call.count = count;
  return call;
}

// How often each element of the input is in a block, and by which host it is reduced.
struct Coverage {
  std::vector<int> times, host;

  Coverage(const HostRounds& rounds, std::size_t elements) : times(elements), host(elements, -1) {
    for (std::size_t k = 0; k < rounds.count(); ++k) {
      const HostRound round = rounds.round(k);
      EXPECT_LE(round.elements, rounds.most_elements());
      std::size_t at = 0;
      for (const HostBlock& block : round.blocks) {
        EXPECT_EQ(block.at, at);
        at += block.count;
        for (std::size_t i = block.offset; i < block.offset + block.count; ++i) {
          ++times[i];
          host[i] = block.host;
        }
      }
      EXPECT_EQ(at, round.elements);
    }
  }
};

TEST(HostRounds, EveryElementIsReducedOnceAndEveryHostHasItsShare) {
  const Placement placement = placement_of({0, 1, 2, 0, 1});
  for (const std::size_t count : {1ul, 17ul, 70'000ul, 1'000'003ul}) {
    const Call call = call_of(CallKind::all_reduce, DataType::bf16, count);
    const Coverage coverage(HostRounds(call, placement), count);
    EXPECT_EQ(coverage.times, std::vector<int>(count, 1)) << count;
    for (int host = 0; host < 3 && count > 1000; ++host)
      EXPECT_NEAR(static_cast<double>(std::count(coverage.host.begin(), coverage.host.end(), host)),
                  static_cast<double>(count) / 3, 300);
  }
}

TEST(HostRounds, ReduceScatterGivesEachRunToTheHostOfItsRank) {
  const Placement placement = placement_of({0, 1, 1});
  for (const std::size_t count : {1ul, 17ul, 200'001ul}) {
    const Call call = call_of(CallKind::reduce_scatter, DataType::f32, count);
    const Coverage coverage(HostRounds(call, placement), 3 * count);
    EXPECT_EQ(coverage.times, std::vector<int>(3 * count, 1)) << count;
    for (std::size_t i = 0; i < 3 * count; ++i)
      ASSERT_EQ(coverage.host[i], placement.host_of[i / count]);
  }
}

TEST(HostRounds, ManyHostsDoNotMakeARoundLarge) {
  std::vector<int> hosts(256);
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i] = static_cast<int>(i);
  const Placement placement = placement_of(hosts);
  for (const CallKind kind : {CallKind::all_reduce, CallKind::reduce_scatter}) {
    const Call call = call_of(kind, DataType::f32, 100'000'000);
    EXPECT_LE(HostRounds(call, placement).most_elements() * 4, HostRounds::kRoundBytes);
  }
}

TEST(HostRounds, NothingToReduceIsNoRound) {
  const Placement placement = placement_of({0, 1});
  EXPECT_EQ(HostRounds(call_of(CallKind::all_reduce, DataType::f32, 0), placement).count(), 0u);
}

}  // namespace
}  // namespace cohort::collective
