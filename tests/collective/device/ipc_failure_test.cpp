// What a group on GPUs does about replays of CUDA graphs, failures and its own end. On the stand-in
// for NVIDIA's driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/collective/form.h"
#include "ipc_fixture.h"

namespace cohort::collective::testing {
namespace {

using ::testing::HasSubstr;

// Some calls as a graph.
void* record(Rank& rank, const Script& script) {
  rank.gpu.begin_capture(rank.streams[0]);
  script.put(*rank.group, rank.streams);
  return rank.gpu.end_capture(rank.streams[0]);
}

TEST(IpcReplay, AGroupIsDestroyedWhileReplaysWaitForAPeer) {
  SKIP_WITHOUT_STAND_IN();
  for (const bool fails : {false, true})
    spawn(2, [&](Group& host) {
      Rank rank(host, 2048);
      const Script script(rank.gpu, host.rank(), 2, random_calls(2, 1, 10, 1000, 1), 1);
      void* graph = record(rank, script);
      host.barrier();
      if (host.rank() == 1) {  // rank 0 never launches it
        for (int i = 0; i < 5; ++i) rank.gpu.launch(graph, rank.streams[0]);
        if (fails) rank.group->abort("the data set is gone");
        rank.group.reset();
        EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon())) << "the group went before its calls";
      }
      host.barrier();
      if (host.rank() == 1) return;
      EXPECT_THAT(message_of<PeerError>([&] { rank.group->check(); }),
                  HasSubstr(fails ? "the data set is gone" : "rank 1 has left the group"));
    });
}

TEST(IpcReplay, APeerThatLeavesWithFewerReplaysIsNamed) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    const Script script(rank.gpu, host.rank(), 2, random_calls(2, 1, 10, 1000, 1), 1);
    void* graph = record(rank, script);
    for (int i = 0; i < 3; ++i) rank.gpu.launch(graph, rank.streams[0]);
    rank.finish();
    if (host.rank() == 1) {
      rank.group.reset();
      host.barrier();
    } else {
      host.barrier();
      rank.group->check();  // it has done its part in all so far
      rank.gpu.launch(graph, rank.streams[0]);
      const std::string text = message_of<PeerError>([&] {
        while (!rank.gpu.wait(rank.streams[0], Deadline::after(std::chrono::milliseconds(5))))
          rank.group->check();
        rank.group->check();
      });
      EXPECT_THAT(text, HasSubstr("rank 1 has left the group"));
      EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
    }
    host.barrier();
  });
}

TEST(IpcReplay, APeerThatLeavesAfterItsLastReplayIsNotMissed) {
  SKIP_WITHOUT_STAND_IN();
  spawn(3, [&](Group& host) {
    Rank rank(host, 2048);
    const Script script(rank.gpu, host.rank(), 3, random_calls(3, 1, 20, 2000, 1), 1);
    void* graph = record(rank, script);
    for (int i = 0; i < 20; ++i) rank.gpu.launch(graph, rank.streams[0]);
    while (!rank.gpu.wait(rank.streams[0], Deadline::after(std::chrono::milliseconds(1))))
      rank.group->check();
    rank.group->check();
  });
}

// One rank cannot record its calls, in the middle of them; so no rank replays, and all go on without.
TEST(IpcReplay, ARecordingThatFailsOnOneRankLeavesTheGroupIntact) {
  SKIP_WITHOUT_STAND_IN();
  spawn(3, [&](Group& host) {
    Rank rank(host, 2048);
    rank.run(random_calls(3, 1, 10, 1000, 1), 1);
    const DeviceStream stream = rank.streams[0];
    std::byte* data = rank.gpu.allocate(4096);
    const auto call = [&] {
      rank.group->all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, stream);
    };
    rank.gpu.begin_capture(stream);
    call();
    if (host.rank() == 1) {
      Gpu::fail_call("cuMemcpyAsync");
      EXPECT_THAT(message_of<Error>(call), HasSubstr("cuMemcpyAsync"));
      Gpu::fail_call("");
      EXPECT_THAT(message_of<Error>(call), HasSubstr("the stand-in refuses"));
      EXPECT_THROW(rank.gpu.end_capture(stream), std::runtime_error);
    } else {
      for (int i = 0; i < 4; ++i) call();
      rank.gpu.end_capture(stream);
    }
    host.barrier();
    rank.group->check();
    rank.run(every_call(3, 100), 2);
    // Nor do replays depend on what was recorded before.
    Script script(rank.gpu, host.rank(), 3, random_calls(3, 3, 10, 1000, 1), 3);
    void* graph = record(rank, script);
    script.upload(4);
    rank.gpu.launch(graph, stream);
    rank.finish();
    EXPECT_EQ(script.compare(), "");
  });
}

TEST(IpcWatch, AHostThatIsBlockedInALaunchGoesOnWhenAPeerFailsOrLeaves) {
  SKIP_WITHOUT_STAND_IN();
  for (const bool leaves : {false, true})
    spawn(2, [&](Group& host) {
      Rank rank(host, 2048);
      std::byte* data = rank.gpu.allocate(4096);
      if (host.rank() == 1) {
        const std::string text = message_of<PeerError>([&] {
          while (true)
            rank.group->all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, rank.streams[0]);
        });
        EXPECT_THAT(text, HasSubstr(leaves ? "rank 0 has left" : "the data set is gone"));
      } else {
        while (Gpu::stand_in_blocked_calls() == 0) std::this_thread::yield();
        if (leaves)
          rank.group.reset();
        else
          rank.group->abort("the data set is gone");
      }
      EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
      host.barrier();
    });
}

// spawn() sees to it that everything was given back.
TEST(IpcEnd, AGroupIsDestroyedOnAThreadWithoutADevice) {
  SKIP_WITHOUT_STAND_IN();
  for (const int size : {1, 2})
    spawn(size, [&](Group& host) {
      Rank rank(host, 2048);
      rank.run(random_calls(size, 1, 10, 1000, 1), 1);
      std::thread([&] { rank.group.reset(); }).join();
      host.barrier();
    });
}

// Memory is freed when all work of its GPU is done, and that may need a call of this thread.
TEST(IpcEnd, ARankDoesNotFreeMemoryOnTheGpuOfAnother) {
  SKIP_WITHOUT_STAND_IN();
  spawn(2, [&](Group& host) {
    Rank rank(host, 2048);
    const auto other = ipc::form(host, rank.arithmetic, soon(), {.slot_bytes = 2048});
    std::byte* data = rank.gpu.allocate(4096);
    const auto call = [&] {
      other->all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, rank.streams[0]);
    };
    if (host.rank() == 1) {
      rank.group.reset();  // which rank 0 still has open
      call();
      host.barrier();
    } else {
      host.barrier();
      rank.group.reset();  // now the memory of rank 1 may be freed
      const auto alone = make_group_of_one();
      ipc::form(*alone, rank.arithmetic, soon(), {.slot_bytes = 2048});
      call();
    }
    EXPECT_TRUE(rank.gpu.wait(rank.streams[0], soon()));
    other->check();
    host.barrier();
  });
}

}  // namespace
}  // namespace cohort::collective::testing
