#include "cohort/parallel/strategies/run_replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/collective/form.h"

namespace cohort::parallel {
namespace {

using ::testing::HasSubstr;

class RunReplicas : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr int size = 3;
    groups_ = collective::make_inproc_groups(size);
    replicas_.clear();
    for (int i = 0; i < size; ++i)
      replicas_.push_back(
          {.local = i, .rank = i, .size = size, .device = torch::kCPU, .group = groups_[i].get()});
  }
  void all_reduce_for_ever(const Replica& replica) {
    float value = 1;
    while (true) replica.group->all_reduce(std::span(&value, 1));
  }
  std::vector<std::unique_ptr<collective::Group>> groups_;
  std::vector<Replica> replicas_;
};

TEST_F(RunReplicas, EachRunsOnAThreadOfItsOwnTheFirstOnTheCallers) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::thread::id of_first;
  run_replicas(replicas_, 1, [&](const Replica& replica) {
    std::int64_t sum = replica.rank;
    replica.group->all_reduce(std::span(&sum, 1));
    EXPECT_EQ(sum, 3);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    if (replica.is_first()) of_first = std::this_thread::get_id();
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(of_first, std::this_thread::get_id());
}

TEST_F(RunReplicas, EveryReplicaComputesWithTheThreadsAskedFor) {
  run_replicas(replicas_, 2, [&](const Replica&) { EXPECT_EQ(at::get_num_threads(), 2); });
  run_replicas(replicas_, 1, [&](const Replica&) { EXPECT_EQ(at::get_num_threads(), 1); });
}

TEST_F(RunReplicas, OneReplicasErrorStopsTheOthersAndIsTheOneThatIsThrown) {
  for (int culprit = 0; culprit < 3; ++culprit) {
    SetUp();
    EXPECT_EQ(message_of<std::out_of_range>([&] {
                run_replicas(replicas_, 1, [&](const Replica& replica) {
                  if (replica.rank == culprit) throw std::out_of_range("label 12 of 10");
                  all_reduce_for_ever(replica);
                });
              }),
              "label 12 of 10");
  }
}

TEST_F(RunReplicas, TheOthersReadWhoStoppedAndWhy) {
  std::string read;
  EXPECT_THROW(run_replicas(replicas_, 1,
                            [&](const Replica& replica) {
                              if (replica.rank == 2) throw std::runtime_error("the disk is full");
                              if (replica.rank == 1) {
                                all_reduce_for_ever(replica);
                              } else {
                                try {
                                  all_reduce_for_ever(replica);
                                } catch (const PeerError& error) {
                                  read = error.what();
                                  throw;
                                }
                              }
                            }),
               std::runtime_error);
  EXPECT_THAT(read, HasSubstr("replica 2 of 3 stopped: the disk is full"));
}

TEST_F(RunReplicas, AnErrorThatOnlyReportsAPeerGivesWayToTheCause) {
  std::atomic<bool> reported = false;
  EXPECT_THROW(run_replicas(replicas_, 1,
                            [&](const Replica& replica) {
                              if (replica.rank == 0) {
                                reported = true;
                                throw PeerError("rank 1 left the group");
                              }
                              while (!reported) std::this_thread::yield();
                              if (replica.rank == 1) throw InvalidInput("the cause");
                            }),
               InvalidInput);
}

TEST_F(RunReplicas, WhatIsNotAnExceptionClassIsRethrownToo) {
  EXPECT_THROW(run_replicas(replicas_, 1,
                            [&](const Replica& replica) {
                              if (replica.rank == 1) throw 7;
                              all_reduce_for_ever(replica);
                            }),
               int);
}

}  // namespace
}  // namespace cohort::parallel
