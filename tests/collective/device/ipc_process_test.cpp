// Ranks with GPUs as processes: what they compute, and what they do when one is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "../rank_process.h"
#include "cohort/base/sanitized_test.h"
#include "gpu.h"

namespace cohort::collective {
namespace {

using testing::Gpu;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{120};

#define SKIP_WITHOUT_GPU() \
  if (Gpu::count() == 0) GTEST_SKIP() << "no GPU and no stand-in for one"
#define SKIP_WITHOUT_STAND_IN() \
  if (!Gpu::is_stand_in()) GTEST_SKIP() << "needs the stand-in for NVIDIA's driver"

TEST(IpcProcess, EveryCallGivesTheReferenceOnEveryRank) {
  SKIP_WITHOUT_GPU();
  cluster::StoreServer store;
  for (const int size : {1, 2, 3, 4}) {
    auto ranks = start(size, store, "script" + std::to_string(size), "script");
    for (auto& rank : ranks) EXPECT_EQ(rank->line(kLong), "ok");
    for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
  }
}

TEST(IpcProcess, ThreadsAndProcessesMix) {
  SKIP_WITHOUT_STAND_IN();  // several ranks of a process want a GPU each
  cluster::StoreServer store;
  auto ranks = start(2, store, "mixed", "pair-script");
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->line(kLong), "ready");  // its second rank
    EXPECT_EQ(rank->line(kLong), "ok");
    EXPECT_EQ(rank->line(kLong), "ok");
    EXPECT_EQ(rank->wait(), 0);
  }
}

class KilledGpuRank : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(NoticedBy, KilledGpuRank,
                         ::testing::Values("loop", "ahead", "watched", "replays"),
                         [](const auto& info) { return info.param; });

TEST_P(KilledGpuRank, LetsTheStreamsOfTheOthersGoOn) {
  SKIP_WITHOUT_GPU();
  cluster::StoreServer store;
  std::mt19937 random(5);
  double worst = 0;
  for (int round = 0; round < (kSanitized ? 4 : 12); ++round) {
    const int size = 2 + round % 3;
    auto ranks = start(size, store, GetParam() + std::to_string(round), GetParam());
    ASSERT_FALSE(HasFailure()) << "round " << round;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));  // the instant
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    const auto killed = Clock::now();
    ranks[victim]->signal(SIGKILL);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      EXPECT_THAT(ranks[rank]->line(kLong), HasSubstr("rank " + std::to_string(victim)));
      const std::string first = ranks[rank]->line(kLong);
      EXPECT_THAT((std::vector{first, ranks[rank]->line(kLong)}),
                  UnorderedElementsAre("ended", "gone"));
      EXPECT_EQ(ranks[rank]->wait(), 0);
    }
    worst = std::max(worst, std::chrono::duration<double>(Clock::now() - killed).count());
    ASSERT_FALSE(HasFailure()) << "round " << round << ", rank " << victim << " was killed";
  }
  std::printf("all ended %.2f s after the death, at worst\n", worst);
  EXPECT_LT(worst, kSanitized ? 20 : 5);
}

TEST(IpcProcess, WhatTheDriverRefusesToOneRankIsThrownOnAll) {
  SKIP_WITHOUT_STAND_IN();
  cluster::StoreServer store;
  for (const std::string call :
       {"cuMemAlloc", "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuMemHostRegister"})
    for (const int refused : {0, 2}) {
      auto ranks = start(3, store, call + std::to_string(refused),
                         "refused-" + call + "-" + std::to_string(refused));
      for (auto& rank : ranks) {
        const std::string text = rank->line(kLong);
        EXPECT_THAT(text, HasSubstr("error "));
        EXPECT_THAT(text, HasSubstr("rank " + std::to_string(refused) + ": " + call));
        EXPECT_EQ(rank->line(kLong), "mappings 0");
        EXPECT_EQ(rank->wait(), 0);
      }
    }
}

}  // namespace
}  // namespace cohort::collective
