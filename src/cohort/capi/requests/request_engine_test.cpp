#include "cohort/capi/requests/request_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <barrier>
#include <random>
#include <system_error>

#include "cohort/base/process/wait_interrupt.h"
#include "cohort/capi/requests/on_ranks_test.h"

namespace cohort::capi {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

const Deadline kForEver = Deadline::never();

void run(RequestEngine& engine, const RequestRef& request) {
  engine.submit(request, true);
  engine.wait(*request, kForEver);
  if (request->failure.happened()) throw StatusError(request->failure);
}

TEST(RequestEngine, BlockingCallsNeedNoThread) {
  on_ranks(3, [](auto group) {
    RequestEngine engine(std::move(group), {});
    for (int i = 0; i < 50; ++i) {
      std::vector<float> values(5, static_cast<float>(engine.rank() + i));
      run(engine, sum_of("x", values));
      EXPECT_THAT(values, Each(static_cast<float>(3 + 3 * i)));
    }
    EXPECT_THAT(engine.look().requests, testing::IsEmpty());
  });
}

TEST(RequestEngine, RanksMaySubmitInAnyOrder) {
  on_ranks(3, [](auto group) {
    RequestEngine engine(std::move(group), {});
    for (int repeat = 0; repeat < 10; ++repeat) {
      std::vector<std::vector<float>> values(40);
      std::vector<RequestRef> requests;
      std::vector<std::size_t> order(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) order[i] = i;
      std::mt19937 random(static_cast<unsigned>(engine.rank() * 100 + repeat));
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        values[i].assign(i + 1, static_cast<float>(i));
        requests.push_back(sum_of("t" + std::to_string(i), values[i]));
        engine.submit(requests.back());
      }
      for (const auto& request : requests) ASSERT_TRUE(engine.wait(*request, kForEver));
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_THAT(values[i], Each(static_cast<float>(3 * i)));
    }
  });
}

TEST(RequestEngine, ThreadsOfOneRankBlockInDifferentOrders) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 30; ++i) {
          std::vector<float> values(2, 1);
          run(engine, sum_of("thread" + std::to_string(engine.rank() == 0 ? t : 3 - t), values));
          EXPECT_THAT(values, Each(2.0f));
        }
      });
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(RequestEngine, MismatchesFailOnAllRanksAndTheRestGoesOn) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> values(engine.rank() == 0 ? 3 : 4, 1), good(2, 1);
    const auto bad = sum_of("bad", values);
    engine.submit(bad);
    run(engine, sum_of("good", good));
    EXPECT_THAT(good, Each(2.0f));
    ASSERT_TRUE(engine.wait(*bad, kForEver));
    EXPECT_EQ(bad->failure.status, COHORT_MISMATCH);
    EXPECT_THAT(bad->failure.message,
                testing::AllOf(HasSubstr("rank 0: allreduce (sum) of f32[3]"),
                               HasSubstr("rank 1: allreduce (sum) of f32[4]")));
    run(engine, sum_of("bad", good));
  });
}

TEST(RequestEngine, ANameIsUnderWayOnce) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(2, 1), b(2, 1), c(2, 1);
    if (engine.rank() == 0) {
      const auto first = sum_of("x", a);
      engine.submit(first);
      EXPECT_THROW(engine.submit(sum_of("x", b)), InvalidInput);
      EXPECT_THROW(engine.submit(request_of(Kind::broadcast, "x", c)), InvalidInput);
      engine.submit(request_of(Kind::barrier, "x", c));
      ASSERT_TRUE(engine.wait(*first, kForEver));
      run(engine, sum_of("x", b));
    } else {
      std::this_thread::sleep_for(20ms);
      run(engine, sum_of("x", a));
      run(engine, sum_of("x", b));
      run(engine, request_of(Kind::barrier, "x", c));
    }
    run(engine, request_of(Kind::barrier, "end", c));
  });
}

TEST(RequestEngine, ALimitedWaitReturnsAndTheRequestGoesOn) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> values(2, 1);
    const auto request = sum_of("x", values);
    if (engine.rank() == 1) std::this_thread::sleep_for(100ms);
    engine.submit(request);
    if (engine.rank() == 0) {
      EXPECT_FALSE(engine.wait(*request, Deadline::after(10ms)));
    }
    EXPECT_TRUE(engine.wait(*request, Deadline::after(60s)));
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST(RequestEngine, TellsWhenARequestIsOverWithoutAWait) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> values(2, 1);
    const auto request = sum_of("x", values);
    std::atomic<int> told = 0;
    request->done = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
    request->user = &told;
    engine.submit(request);
    while (told == 0) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(request->is_over());
    EXPECT_EQ(told, 1);
  });
}

TEST(RequestEngine, ManySmallTensorsGoInFewCallsAndLargeOnesAlone) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<std::vector<float>> values(300);
    std::vector<RequestRef> requests;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].assign(i % 100 == 99 ? (1 << 18) + 1 : i % 7, static_cast<float>(i));
      requests.push_back(sum_of("t" + std::to_string(i), values[i]));
      engine.submit(requests.back());
    }
    for (const auto& request : requests) ASSERT_TRUE(engine.wait(*request, kForEver));
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_THAT(values[i], Each(static_cast<float>(2 * i)));
  });
}

TEST(RequestEngine, NewsOfAnySizeArrive) {
  on_ranks(3, [](auto group) {
    RequestEngine engine(std::move(group), {});
    for (const std::size_t length : {1u, 150u, 200u, 240u, 300u, 20000u}) {
      std::vector<float> values(1, 1);
      run(engine, sum_of(std::string(length, 'n'), values));
      EXPECT_THAT(values, ElementsAre(3.0f));
    }
  });
}

TEST(Exchange, BoundsTheNewsOfARank) {
  on_ranks(2, [](auto group) {
    Exchange exchange(*group, group->rank() == 0 ? 1000 : 2000);
    exchange.run(std::string(1000, 'n'));
    EXPECT_THROW(exchange.run(std::string(2001, 'n')), InvalidInput);
    if (group->rank() == 0) {
      try {
        exchange.run("");
        FAIL() << "rank 1 sent more";
      } catch (const ProtocolError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 announces news of 1500 bytes"));
      }
      group->abort("the test is over");
    } else {
      EXPECT_THROW(exchange.run(std::string(1500, 'n')), PeerError);
    }
  });
}

// While it lives, no thread starts in this process: stacks are larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t larger;
    pthread_getattr_default_np(&larger);
    pthread_attr_setstacksize(&larger, std::size_t{1} << 48);
    pthread_setattr_default_np(&larger);
    pthread_attr_destroy(&larger);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(RequestEngine, ARefusedSubmitLeavesNothingBehind) {
  RequestEngine engine(std::move(collective::make_inproc_groups(1)[0]), {});
  std::vector<float> values(1, 1);
  {
    const NoThreads none;
    EXPECT_THROW(engine.submit(sum_of("x", values)), std::system_error);
  }
  EXPECT_THAT(engine.look().requests, testing::IsEmpty());
  run(engine, sum_of("x", values));
}

TEST(RequestEngine, AWaitThatSucceededNeedsNoThreadForTheRest) {
  std::barrier done(2);
  on_ranks(2, [&](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(1, 1), b(1, 1);
    const auto x = sum_of("x", a), later = sum_of("later", b);
    engine.submit(x, true);
    if (engine.rank() == 0) {
      engine.submit(later, true);
      const NoThreads none;
      EXPECT_NO_THROW(engine.wait(*x, kForEver));
      EXPECT_NO_THROW(engine.wait(*later, Deadline::after(1ms)));
      EXPECT_FALSE(later->is_over());
    } else {
      EXPECT_TRUE(engine.wait(*x, kForEver));
    }
    done.arrive_and_wait();
    if (engine.rank() == 1) engine.submit(later, true);
    EXPECT_TRUE(engine.wait(*later, kForEver));
    EXPECT_THAT(b, ElementsAre(2.0f));
  });
}

TEST(RequestEngine, ASubgroupIsFormedWithinTheGroupsTimeout) {
  auto groups = collective::make_inproc_groups(2, 50ms);
  RequestEngine engine(std::move(groups[1]), {});
  const int both[] = {0, 1};
  EXPECT_THROW(engine.subgroup(both), TimeoutError);
}

TEST(RequestEngine, CloseEndsWhatIsUnderWayAndPeersLearn) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(2, 1), b(2, 1);
    run(engine, sum_of("both", a));
    if (engine.rank() == 0) {
      const auto request = sum_of("alone", b);
      engine.submit(request);
      std::this_thread::sleep_for(20ms);
      engine.close({COHORT_CLOSED, "the world was closed"});
      EXPECT_TRUE(request->is_over());
      EXPECT_EQ(request->failure.status, COHORT_CLOSED);
      EXPECT_THROW(engine.submit(request), StatusError);
      return;
    }
    const auto request = sum_of("other", b);
    engine.submit(request);
    EXPECT_TRUE(engine.wait(*request, kForEver));
    EXPECT_EQ(request->failure.status, COHORT_PEER);
    try {
      engine.submit(sum_of("later", a));
      FAIL() << "a broken engine took a request";
    } catch (const StatusError& error) {
      EXPECT_EQ(error.failure().message, request->failure.message);
    }
  });
}

TEST(RequestEngine, AnInterruptedWaitBreaksTheGroup) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(2, 1);
    const auto request = sum_of("x", a);
    if (engine.rank() == 0) {
      const WaitInterrupt interrupt([] { return true; });
      engine.submit(request, true);
      EXPECT_THROW(engine.wait(*request, kForEver), Interrupted);
      EXPECT_TRUE(request->is_over());
      EXPECT_EQ(request->failure.status, COHORT_PEER);
      return;
    }
    std::this_thread::sleep_for(150ms);
    try {
      run(engine, request);
      FAIL() << "the other rank was interrupted";
    } catch (const StatusError& error) {
      EXPECT_EQ(error.failure().status, COHORT_PEER);
    }
  });
}

TEST(RequestEngine, WaitsForTheThreadAreInterruptedToo) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(2, 1);
    const auto request = sum_of("x", a);
    if (engine.rank() == 1) {
      std::this_thread::sleep_for(200ms);
      return;
    }
    engine.submit(request);
    std::this_thread::sleep_for(20ms);  // the thread drives
    const WaitInterrupt interrupt([] { return true; });
    EXPECT_THROW(engine.wait(*request, Deadline::after(60s)), Interrupted);
    engine.wait_until_over(*request);
  });
}

TEST(RequestEngine, SaysWhatItWaitsForAndWhoIsMissing) {
  std::barrier both_have_looked(2);
  on_ranks(2, [&](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> a(2, 1), b(2, 1);
    const auto x = sum_of("x", a), y = sum_of("y", b);
    engine.submit(engine.rank() == 0 ? x : y);
    while (engine.look().requests.at(0).missing.empty()) std::this_thread::sleep_for(1ms);
    const auto one = engine.look().requests.at(0);
    EXPECT_EQ(one.name, engine.rank() == 0 ? "x" : "y");
    EXPECT_THAT(one.missing, ElementsAre(1 - engine.rank()));
    both_have_looked.arrive_and_wait();
    engine.submit(engine.rank() == 0 ? y : x);
    EXPECT_TRUE(engine.wait(*x, kForEver));
    EXPECT_TRUE(engine.wait(*y, kForEver));
  });
}

TEST(RequestEngine, AnAllocationThatFailsFailsThatRankOnly) {
  on_ranks(2, [](auto group) {
    RequestEngine engine(std::move(group), {});
    std::vector<float> values(2, 1);
    const auto request = request_of(Kind::all_gather, "g", values);
    if (engine.rank() == 0)
      request->allocate = [](void*, std::int32_t, std::int32_t, const std::int64_t*) -> void* {
        return nullptr;
      };
    engine.submit(request);
    EXPECT_TRUE(engine.wait(*request, kForEver));
    EXPECT_EQ(request->failure.happened(), engine.rank() == 0);
    run(engine, sum_of("next", values));
  });
}

}  // namespace
}  // namespace cohort::capi
