// Ranks with GPUs as threads of this process, on the stand-in for NVIDIA's driver.
#include "cohort/collective/ipc/ipc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "../spawn.h"
#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/collective/form.h"
#include "ipc_fixture.h"

namespace cohort::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(Ipc, EveryCallGivesTheReferenceForEveryTypeAndSize) {
  SKIP_WITHOUT_STAND_IN();
  const std::vector<std::size_t> counts =
      kSanitized ? std::vector<std::size_t>{0, 3, 1000}
                 : std::vector<std::size_t>{0, 1, 2, 3, 63, 64, 65, 1000, 4099};
  for (const int size : {1, 2, 3, 4})
    spawn(size, [&](Group& host) {
      Rank rank(host, 4096);
      for (const std::size_t count : counts) rank.run(every_call(size, count), 1);
    });
}

TEST(Ipc, TheSmallestSlotsTakeManyRounds) {
  SKIP_WITHOUT_STAND_IN();
  for (const int size : {2, 3, 4})
    spawn(size, [&](Group& host) {
      Rank rank(host, 64 * static_cast<std::size_t>(size));
      rank.run(every_call(size, 300), 2);
    });
}

TEST(Ipc, MessagesLongerThanTheDefaultSlots) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, ipc::Options{}.slot_bytes);
    std::vector<Step> steps;
    for (const CallKind kind : {CallKind::all_reduce, CallKind::all_gather_v, CallKind::broadcast})
      steps.push_back({kind, DataType::f32, ReduceOp::average, 3'000'001, 1, false, 0});
    rank.run(steps, 3);
  });
}

TEST(Ipc, ManyCallsInARowOnTwoStreamsKeepTheirOrder) {
  SKIP_WITHOUT_STAND_IN();
  for (const int size : {2, 3, 4})
    spawn(size, [&](Group& host) {
      Rank rank(host, 2048);
      for (unsigned seed = 0; seed < (kSanitized ? 2u : 6u); ++seed)
        rank.run(random_calls(size, seed, 150, 3000, 2), seed);
    });
}

TEST(Ipc, AGraphIsReplayedBehindOtherCallsAndBehindItself) {
  SKIP_WITHOUT_STAND_IN();
  for (const int size : {2, 3})
    for (unsigned variety = 0; variety < 4; ++variety)
      spawn(size, [&](Group& host) {
        Rank rank(host, 2048);
        // Calls with even and odd numbers of rounds.
        Script script(rank.gpu, host.rank(), size, random_calls(size, variety, 15, 2000, 1),
                      variety);
        rank.gpu.begin_capture(rank.streams[0]);
        script.put(*rank.group, rank.streams);
        void* graph = rank.gpu.end_capture(rank.streams[0]);
        for (unsigned seed = 0; seed < 3; ++seed) {
          script.upload(seed);
          rank.gpu.launch(graph, rank.streams[0]);
          rank.finish();
          EXPECT_EQ(script.compare(), "") << "replay " << seed;
          rank.run(random_calls(size, seed, 11, 500, 1), seed);
        }
        for (int i = 0; i < 10; ++i) rank.gpu.launch(graph, rank.streams[0]);
        rank.finish();
      });
}

TEST(Ipc, CallsThatDifferAreReportedOnEveryRankWithBothSides) {
  SKIP_WITHOUT_STAND_IN();
  using Calls = std::function<void(Rank&, std::byte*, int)>;
  const std::pair<Calls, std::string> cases[] = {
      {[](Rank& r, std::byte* d, int rank) {
         r.group->all_reduce(d, d, rank == 1 ? 101 : 100, DataType::f32, ReduceOp::sum,
                             r.streams[0]);
       },
       "101 x f32"},
      {[](Rank& r, std::byte* d, int rank) {
         if (rank == 0)
           r.group->broadcast(d, 100, DataType::f32, 0, r.streams[0]);
         else
           r.group->all_reduce(d, d, 100, DataType::f32, ReduceOp::sum, r.streams[0]);
       },
       "broadcast"},
      {[](Rank& r, std::byte* d, int rank) {
         const std::vector<std::size_t> sends{5, rank == 0 ? 6u : 5u, 5}, receives{5, 5, 5};
         r.group->all_to_all_v(d, sends, d + 4096, receives, DataType::u8, r.streams[0]);
       },
       "sends 6 to rank 1, which expects 5"},
      {[](Rank& r, std::byte* d, int rank) {
         const std::vector<std::size_t> counts{5, 5, rank == 2 ? 7u : 5u};
         r.group->all_gather_v(d, d + 4096, counts, DataType::u8, r.streams[0]);
       },
       "gives 7"}};
  for (const auto& [calls, text] : cases)
    spawn(3, [&, &calls = calls, &text = text](Group& host) {
      Rank rank(host, 4096);
      std::byte* data = rank.gpu.allocate(8192);
      try {
        calls(rank, data, host.rank());
      } catch (const MismatchError&) {  // at a rank that comes later
      }
      host.barrier();
      const std::string thrown = message_of<MismatchError>([&] { rank.group->check(); });
      EXPECT_THAT(thrown, HasSubstr(text));
      EXPECT_THAT(thrown, HasSubstr("#1"));
      EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
      message_of<MismatchError>([&] { rank.group->check(); });
    });
}

TEST(Ipc, AbortLetsStreamsGoOnAndLaterCallsThrow) {
  SKIP_WITHOUT_STAND_IN();
  spawn(3, [&](Group& host) {
    Rank rank(host, 2048);
    Script captured(rank.gpu, host.rank(), 3, random_calls(3, 1, 10, 1000, 1), 1);
    rank.gpu.begin_capture(rank.streams[0]);
    captured.put(*rank.group, rank.streams);
    void* graph = rank.gpu.end_capture(rank.streams[0]);
    Script script(rank.gpu, host.rank(), 3, random_calls(3, 2, 10, 1000, 1), 2);
    host.barrier();
    if (host.rank() != 0) {  // which never calls
      script.put(*rank.group, rank.streams);
      rank.gpu.launch(graph, rank.streams[0]);
      EXPECT_FALSE(rank.gpu.wait(rank.streams[0], Deadline::after(std::chrono::milliseconds(50))));
    }
    host.barrier();
    rank.group->abort("the data set is gone");
    EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
    // What is put on a stream later, by a graph, does not stop either.
    rank.gpu.launch(graph, rank.streams[0]);
    EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
    EXPECT_THAT(message_of<PeerError>([&] { script.put(*rank.group, rank.streams); }),
                HasSubstr("the data set is gone"));
    EXPECT_THAT(message_of<PeerError>([&] { rank.group->check(); }),
                HasSubstr("the data set is gone"));
  });
}

TEST(Ipc, AnAbortOfOneRankIsThrownOnTheOthers) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    if (host.rank() == 1) rank.group->abort("the data set is gone");
    host.barrier();
    const std::string text = message_of<PeerError>([&] { rank.group->check(); });
    EXPECT_THAT(text, HasSubstr("rank 1 ended the calls on GPUs: the data set is gone"));
    host.barrier();
  });
}

TEST(Ipc, ARankThatLeavesIsNamedAndItsOwnCallsEnd) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    std::byte* data = rank.gpu.allocate(4096);
    const auto reduce = [&] {
      rank.group->all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, rank.streams[0]);
    };
    reduce();
    rank.finish();
    if (host.rank() == 1) {
      rank.group.reset();
      host.barrier();
      host.barrier();
      return;
    }
    host.barrier();
    EXPECT_THAT(message_of<PeerError>([&] { reduce(); }), HasSubstr("rank 1 has left"));
    host.barrier();
  });
}

TEST(Ipc, AGroupIsDestroyedWhileItsCallsWaitForAPeer) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    std::byte* data = rank.gpu.allocate(40'000);
    if (host.rank() == 1)
      for (int i = 0; i < 2; ++i)  // fewer launches than a stream holds
        rank.group->all_reduce(data, data, 10'000, DataType::f32, ReduceOp::sum, rank.streams[0]);
    const auto began = Deadline::Clock::now();
    if (host.rank() == 1) rank.group.reset();
    EXPECT_LT(Deadline::Clock::now() - began, std::chrono::seconds(10));
    host.barrier();
    if (host.rank() == 0)
      message_of<PeerError>([&] {
        rank.group->all_reduce(data, data, 10'000, DataType::f32, ReduceOp::sum, rank.streams[0]);
        rank.group->check();
      });
  });
}

TEST(Ipc, WrongArgumentsLeaveTheGroupIntact) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    std::byte* data = rank.gpu.allocate(4096);
    const DeviceStream stream = rank.streams[0];
    EXPECT_THROW(rank.group->broadcast(data, 1, DataType::f32, 2, stream), InvalidInput);
    EXPECT_THROW(
        rank.group->all_gather_v(data, data, std::vector<std::size_t>{1}, DataType::f32, stream),
        InvalidInput);
    EXPECT_THROW(
        rank.group->all_reduce(data, data, 1, DataType::boolean, ReduceOp::average, stream),
        InvalidInput);
    const std::vector<std::size_t> sends{1, 2}, receives{2, 1};
    EXPECT_THROW(rank.group->all_to_all_v(data, sends, data, receives, DataType::f32, stream),
                 InvalidInput);
    rank.run(every_call(2, 10), 1);
  });
}

TEST(Ipc, WhatKeepsOneRankFromFormingIsThrownOnAll) {
  SKIP_WITHOUT_STAND_IN();
  const auto form = [](Group& host, const ipc::Options& options) {
    return message_of<Error>([&] { ipc::form(host, nullptr, soon(), options); });
  };
  spawn(3, [&](Group& host) {
    std::optional<Gpu> gpu;
    if (host.rank() != 1) gpu.emplace(host.rank());
    EXPECT_THAT(form(host, {}), HasSubstr("rank 1: this thread has no current CUDA device"));
    if (!gpu) gpu.emplace(1);
    EXPECT_THAT(form(host, {.slot_bytes = host.rank() == 2 ? 4096u : 2048u}),
                HasSubstr("rank 2 has slots of 4096 bytes, rank 0 of 2048"));
    EXPECT_THAT(form(host, {.slot_bytes = 100}), HasSubstr("too small for 3 ranks"));
    EXPECT_THAT(form(host, {.host_identity = host.rank() == 1 ? "a" : "b"}),
                HasSubstr("ranks 0 and 1 run on different hosts"));
    // The group on the host's memory is as good as before.
    const auto group = ipc::form(host, nullptr, soon());
    host.barrier();
  });
}

TEST(Ipc, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  SKIP_WITHOUT_STAND_IN();
  std::latch passed(1);
  spawn(2, [&](Group& host) {
    Gpu gpu(host.rank());
    if (host.rank() == 1) return passed.wait();
    EXPECT_THAT(message_of<TimeoutError>([&] {
                  ipc::form(host, nullptr, Deadline::after(std::chrono::milliseconds(100)));
                }),
                HasSubstr("rank 1"));
    passed.count_down();
  });
}

TEST(Ipc, WithoutADriverItSaysWhatWasLookedForOnEveryRank) {
  if (Gpu::count() > 0) GTEST_SKIP() << "there is a driver";
  EXPECT_THAT(ipc::problem(), HasSubstr("libcuda.so.1"));
  auto groups = make_inproc_groups(2);
  run_ranks(2, [&](int rank) {
    const std::string text = message_of<Error>(
        [&] { ipc::form(*groups[static_cast<std::size_t>(rank)], nullptr, soon()); });
    EXPECT_THAT(text, HasSubstr("rank 0: NVIDIA's driver"));
    EXPECT_THAT(text, HasSubstr("rank 1: NVIDIA's driver"));
  });
}

}  // namespace
}  // namespace cohort::collective::testing
