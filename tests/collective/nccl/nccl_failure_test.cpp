// How a group over NCCL is refused, fails and ends. Over the stand-in.
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "cohort/base/message_of_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/collective/nccl/forming.h"
#include "nccl_fixture.h"

namespace cohort::collective::nccl::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class NcclFailure : public NcclTest {
 protected:
  // What form_rank throws, which must be the same on all `size` ranks.
  template <typename Expected>
  std::string refusal(int size, const std::function<void(Group& group)>& form_rank) {
    std::mutex mutex;
    std::set<std::string> texts;
    run_groups(size, [&](Group& group) {
      const std::string text = message_of<Expected>([&] { form_rank(group); });
      const std::lock_guard lock(mutex);
      texts.insert(text);
    });
    EXPECT_EQ(texts.size(), 1u) << "ranks say different things";
    return texts.empty() ? std::string() : *texts.begin();
  }
};

void add_once(DeviceGroup& nccl, const Stream& stream) {
  std::vector<float> data(10, 1.0f);
  try {
    nccl.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum, stream);
  } catch (...) {
    stream.synchronize();  // the call may be on the stream all the same
    throw;
  }
  stream.synchronize();
}

TEST_F(NcclFailure, TheLibraryThatIsLoadedIsFoundByItsName) {
  controls().version = 23007;
  std::string why = "unset";
  EXPECT_EQ(version(&why), "2.30.7");
  EXPECT_EQ(why, "");
}

TEST_F(NcclFailure, AFileThatIsNotThereOrIsNotNcclIsSaid) {
  std::string why;
  EXPECT_EQ(NcclLibrary::open("libnccl-of-no-package.so.2", &why), nullptr);
  EXPECT_TRUE(holds(why, "libnccl-of-no-package.so.2")) << why;
  EXPECT_EQ(NcclLibrary::open("libm.so.6", &why), nullptr);
  EXPECT_TRUE(holds(why, "has no function ncclGetVersion")) << why;
  controls().version = 21304;
  EXPECT_EQ(NcclLibrary::open(STAND_IN_NCCL, &why), nullptr);
  EXPECT_TRUE(holds(why, "NCCL 2.13.4 is older than 2.14")) << why;
}

TEST_F(NcclFailure, AMissingLibraryOnOneRankIsThrownOnAll) {
  const std::string text = refusal<InvalidInput>(3, [](Group& group) {
    Candidate self{.library = NcclLibrary::find(), .device = on_gpu(group.rank()).device};
    if (group.rank() == 1) {
      self.library = nullptr;
      self.problem = "libnccl.so.2: cannot open shared object file";
    }
    form(group, self, soon(), seconds(20));
  });
  EXPECT_TRUE(holds(text, "rank 1 cannot use NCCL: libnccl.so.2: cannot open")) << text;
}

TEST_F(NcclFailure, AProblemOfOneRankIsThrownOnAllAndTheGroupGoesOn) {
  const std::string text = refusal<InvalidInput>(3, [](Group& group) {
    Participant self = on_gpu(group.rank());
    if (group.rank() > 0) self.problem = "it has no GPU";
    try {
      form(group, self, soon());
    } catch (...) {
      group.barrier();
      throw;
    }
  });
  EXPECT_TRUE(holds(text, "ranks 1, 2 cannot use NCCL: it has no GPU")) << text;
}

TEST_F(NcclFailure, DifferentVersionsAreRefusedOnAllRanks) {
  const std::string text = refusal<InvalidInput>(3, [](Group& group) {
    StandIn::get().set_version(group.rank() == 2 ? 23007 : 0);
    form_one(group, seconds(20));
  });
  EXPECT_TRUE(holds(text, "rank 0 2.28.9, rank 2 2.30.7")) << text;
}

TEST_F(NcclFailure, SeveralRanksOnOneGpuAreRefusedUnlessNcclAllowsIt) {
  const auto shared = [](Group& group) { form(group, on_gpu(group.rank() % 2), soon()); };
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_FALSE(may_share_gpu());
  std::string text = refusal<InvalidInput>(3, shared);
  EXPECT_TRUE(holds(text, "ranks 0, 2 have one GPU, which NCCL 2.28.9 does not allow")) << text;
  controls().version = 23007;
  EXPECT_TRUE(may_share_gpu());
  run_groups(3, [&](Group& group) {
    const auto nccl = form(group, on_gpu(0), soon());
    const Stream stream;
    add_once(*nccl, stream);
    group.barrier();
  });
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  EXPECT_FALSE(may_share_gpu());
  text = refusal<InvalidInput>(3, shared);
  EXPECT_TRUE(holds(text, "ranks 0, 2 have one GPU, which NCCL 2.30.7 does not allow")) << text;
}

TEST_F(NcclFailure, AnIdThatCannotBeMadeIsThrownOnAll) {
  controls().no_id = true;
  const std::string text = refusal<Error>(3, [](Group& group) { form_one(group, seconds(20)); });
  EXPECT_TRUE(holds(text, "ncclGetUniqueId failed on rank 0: unhandled system error")) << text;
  EXPECT_TRUE(holds(text, "the stand-in's last error")) << text;
  EXPECT_TRUE(holds(text, "NCCL_DEBUG=WARN")) << text;
}

TEST_F(NcclFailure, FormingThatNeverEndsStopsAtTheDeadline) {
  controls().never_ready = true;
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = refusal<TimeoutError>(3, [](Group& group) {
    form(group, on_gpu(group.rank()), Deadline::after(milliseconds(300)));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  EXPECT_TRUE(holds(text, "NCCL did not connect ranks 0, 1, 2: NCCL was not ready after ")) << text;
}

TEST_F(NcclFailure, FormingEndsWhenTheGroupBreaks) {
  controls().never_ready = true;
  const auto begin = std::chrono::steady_clock::now();
  run_groups(2, [&](Group& group) {
    std::thread other([&] {
      while (group.rank() == 1 && controls().alive < 2) std::this_thread::yield();
      if (group.rank() == 1) group.abort("the data set is gone");
    });
    const std::string text = message_of<PeerError>(
        [&] { form(group, on_gpu(group.rank()), Deadline::after(seconds(60)), seconds(60)); });
    EXPECT_TRUE(holds(text, "the data set is gone")) << text;
    other.join();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
}

TEST_F(NcclFailure, ARankThatCannotConnectIsNamedOnAllAheadOfWhatTheOthersMet) {
  controls().failing_rank = 1;
  const std::string text = refusal<Error>(3, [](Group& group) { form_one(group, seconds(20)); });
  EXPECT_TRUE(holds(text, "NCCL did not connect rank 1: NCCL failed: unhandled system error"))
      << text;
}

TEST_F(NcclFailure, WhatTheGroupThrowsPassesThrough) {
  run_groups(2, [](Group& group) {
    if (group.rank() == 1) return group.abort("a test ends this");
    const std::string text = message_of<PeerError>([&] { form_one(group, seconds(20)); });
    EXPECT_TRUE(holds(text, "a test ends this")) << text;
  });
}

TEST_F(NcclFailure, AFailureOnTheGpuIsThrownByCheckAndByEveryLaterCall) {
  run(2, [](Group& group, DeviceGroup& nccl) {
    const Stream stream;
    add_once(nccl, stream);
    nccl.check();
    group.barrier();
    if (group.rank() == 0) return;
    StandIn::get().fail(1, 6);
    const std::string text = message_of<PeerError>([&] { nccl.check(); });
    EXPECT_TRUE(holds(text, "NCCL failed: remote process exited")) << text;
    EXPECT_EQ(message_of<PeerError>([&] { add_once(nccl, stream); }), text);
    EXPECT_EQ(message_of<PeerError>([&] { nccl.check(); }), text);
    nccl.abort("too late to be the reason");
    EXPECT_EQ(message_of<PeerError>([&] { nccl.check(); }), text);
  });
}

TEST_F(NcclFailure, AFailureIsThrownByTheNextCallAlsoWithoutACheck) {
  run(2, [](Group& group, DeviceGroup& nccl) {
    if (group.rank() == 0) return;
    const Stream stream;
    StandIn::get().fail(1, 2);
    const std::string text = message_of<Error>([&] { add_once(nccl, stream); });
    EXPECT_TRUE(holds(text, "unhandled system error (the stand-in's last error)")) << text;
    EXPECT_TRUE(holds(text, "all_reduce #1 of 10 x f32, sum over NCCL") ||
                holds(text, "a call put on a stream before"))  // the watch was quicker
        << text;
    std::vector<int> in(3), out(3);
    const std::vector<std::size_t> counts{1, 2};
    EXPECT_EQ(message_of<Error>(
                  [&] { nccl.all_gather_v(in.data(), out.data(), counts, DataType::i32, stream); }),
              text);
  });
}

TEST_F(NcclFailure, AFailureInTheMiddleOfAGroupOfCallsLeavesTheThreadUsable) {
  run_groups(2, [](Group& group) {
    const Stream stream;
    {
      const auto nccl = form_one(group, seconds(20));
      StandIn::get().fail(group.rank(), 2);
      std::vector<int> in(2), out(3);
      const std::vector<std::size_t> counts{1, 2};
      message_of<Error>(
          [&] { nccl->all_gather_v(in.data(), out.data(), counts, DataType::i32, stream); });
    }
    const auto again = form_one(group, seconds(20));
    float value = 1;
    again->all_reduce(&value, &value, 1, DataType::f32, ReduceOp::sum, stream);
    stream.synchronize();
    EXPECT_EQ(value, 2) << "the call was put off by a group that was not ended";
    group.barrier();
  });
}

TEST_F(NcclFailure, ACallThatNcclNeverTakesStopsAtTheTimeout) {
  run_groups(2, [&](Group& group) {
    const auto nccl = form_one(group, milliseconds(200));
    group.barrier();
    controls().never_ready = true;
    const Stream stream;
    const std::string text = message_of<TimeoutError>([&] { add_once(*nccl, stream); });
    EXPECT_TRUE(holds(text, "a rank has not made the same call")) << text;
    EXPECT_TRUE(holds(text, "all_reduce #1")) << text;
    EXPECT_EQ(message_of<TimeoutError>([&] { nccl->check(); }), text);
    group.barrier();
  });
}

TEST_F(NcclFailure, AbortEndsACallThatAnotherThreadIsIn) {
  run_groups(2, [&](Group& group) {
    const auto nccl = form_one(group, seconds(60));
    group.barrier();
    controls().never_ready = true;
    const int before = controls().group_calls;
    std::thread other([&] {
      while (controls().group_calls == before) std::this_thread::yield();
      nccl->abort("rank 7 is lost");
    });
    const Stream stream;
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = message_of<PeerError>([&] { add_once(*nccl, stream); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
    EXPECT_TRUE(holds(text, "rank 7 is lost")) << text;
    other.join();
    EXPECT_EQ(message_of<PeerError>([&] { nccl->check(); }), text);
    stream.synchronize();
    group.barrier();
  });
}

// An older NCCL may launch on the thread that calls, and the stream may be full.
TEST_F(NcclFailure, AbortEndsACallThatIsBlockedInALaunch) {
  run_groups(2, [&](Group& group) {
    const auto nccl = form_one(group, seconds(60));
    group.barrier();
    controls().launches_block = true;
    const int before = controls().group_calls;
    std::thread other([&] {
      while (controls().group_calls == before) std::this_thread::yield();
      nccl->abort("rank 7 is lost");
    });
    const Stream stream;
    const std::string text = message_of<PeerError>([&] { add_once(*nccl, stream); });
    EXPECT_TRUE(holds(text, "rank 7 is lost")) << text;
    other.join();
    EXPECT_EQ(message_of<PeerError>([&] { nccl->check(); }), text);
    stream.synchronize();
    group.barrier();
  });
}

TEST_F(NcclFailure, CallsThatWouldBlockAreRefusedOnAllRanks) {
  setenv("NCCL_COMM_BLOCKING", "1", 1);
  const std::string text =
      refusal<InvalidInput>(2, [](Group& group) { form_one(group, seconds(20)); });
  unsetenv("NCCL_COMM_BLOCKING");
  EXPECT_TRUE(holds(text, "ranks 0, 1 cannot use NCCL: NCCL_COMM_BLOCKING is 1")) << text;
}

TEST_F(NcclFailure, AbortEndsWhatAStreamWaitsFor) {
  run(2, [](Group& group, DeviceGroup& nccl) {
    if (group.rank() == 0) {
      const Stream stream;
      float value = 1;  // rank 1 never makes this call
      nccl.all_reduce(&value, &value, 1, DataType::f32, ReduceOp::sum, stream);
      nccl.abort("the job ends");
      EXPECT_FALSE(stream.synchronize());
      EXPECT_EQ(value, 1);
    }
    group.barrier();
  });
}

// A host that is blocked in a launch asks nothing; and NCCL says nothing of a peer that is gone.
TEST_F(NcclFailure, WhatBreaksTheHostsGroupEndsWhatAStreamWaitsFor) {
  run_groups(2, [](Group& group) {
    const auto nccl = form_one(group, seconds(60));
    const Stream stream;
    group.barrier();
    if (group.rank() == 1) return group.abort("the data set is gone");
    float value = 1;  // rank 1 never makes this call
    try {
      nccl->all_reduce(&value, &value, 1, DataType::f32, ReduceOp::sum, stream);
    } catch (const PeerError&) {  // it was told before
    }
    stream.synchronize();
    const std::string text = message_of<PeerError>([&] { nccl->check(); });
    EXPECT_TRUE(holds(text, "rank 1") && holds(text, "the data set is gone")) << text;
  });
}

TEST_F(NcclFailure, DestroyingAGroupEndsWhatAStreamWaitsFor) {
  run_groups(2, [](Group& group) {
    auto nccl = form_one(group, seconds(20));
    const Stream stream;
    float value = 1;
    if (group.rank() == 0)
      nccl->all_reduce(&value, &value, 1, DataType::f32, ReduceOp::sum, stream);
    nccl.reset();
    EXPECT_EQ(stream.synchronize(), group.rank() == 1);
    group.barrier();
  });
}

// ncclCommAbort returns only when these graphs are gone; the caller may be the one that has them.
TEST_F(NcclFailure, AbortDoesNotWaitForCudaGraphsThatHoldCalls) {
  run_groups(2, [&](Group& group) {
    const auto nccl = form_one(group, seconds(20));
    group.barrier();
    controls().set_graphs_alive(true);
    nccl->abort("the job ends");
    EXPECT_TRUE(holds(message_of<PeerError>([&] { nccl->check(); }), "the job ends"));
    group.barrier();
    EXPECT_EQ(controls().alive, 2);
    group.barrier();
    controls().set_graphs_alive(false);
  });
}

}  // namespace
}  // namespace cohort::collective::nccl::testing
