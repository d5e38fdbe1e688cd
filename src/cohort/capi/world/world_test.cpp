#include "cohort/capi/world/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <latch>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/capi/requests/on_ranks_test.h"

namespace cohort::capi {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(60s); }

void run(World& world, int set, const RequestRef& request) {
  const auto engine = world.engine(set);
  engine->submit(request, true);
  engine->wait(*request, Deadline::never());
  if (request->failure.happened()) throw StatusError(request->failure);
}

cohort_status status_of(const std::function<void()>& body) {
  try {
    body();
    return COHORT_OK;
  } catch (...) {
    return current_failure().status;
  }
}

TEST(Place, CountsAsHorovodDoes) {
  const std::vector<std::string> hosts = {"a", "a", "b", "a", "b"};
  const Place third = place_of(3, hosts);  // the third of a
  EXPECT_EQ(third.local_rank, 2);
  EXPECT_EQ(third.local_size, 3);
  EXPECT_EQ(third.cross_rank, 0);
  EXPECT_EQ(third.cross_size, 1);
  EXPECT_FALSE(third.homogeneous);
  const Place last = place_of(4, hosts);  // the second of b
  EXPECT_EQ(last.local_rank, 1);
  EXPECT_EQ(last.local_size, 2);
  EXPECT_EQ(last.cross_rank, 1);
  EXPECT_EQ(last.cross_size, 2);
}

TEST(World, ProcessSetsOverlapAndWorkAtTheSameTime) {
  on_ranks(3, [](auto group) {
    World world(std::move(group), {}, soon());
    const std::vector<std::int32_t> first = {0, 1}, second = {2, 0};
    EXPECT_EQ(world.add_set(first), 1);
    EXPECT_EQ(world.add_set(second), 2);
    EXPECT_THAT(world.ranks_of(2), ElementsAre(0, 2));
    const auto use = [&](int set) {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> values(3, 1);
        run(world, set, sum_of("x", values));
        EXPECT_THAT(values, Each(2.0f));
      }
    };
    std::vector<std::thread> threads;
    if (world.rank() != 2) threads.emplace_back(use, 1);
    if (world.rank() != 1) threads.emplace_back(use, 2);
    for (std::thread& thread : threads) thread.join();
    std::vector<float> values(1, 1);
    if (world.rank() == 2) {
      EXPECT_EQ(status_of([&] { run(world, 1, sum_of("x", values)); }), COHORT_INVALID);
    }
    world.remove_set(1);
    EXPECT_EQ(status_of([&] { world.ranks_of(1); }), COHORT_INVALID);
    EXPECT_EQ(status_of([&] { world.remove_set(1); }), COHORT_INVALID);
    EXPECT_EQ(world.add_set(first), 1) << "the lowest number that is free";
    run(world, 0, sum_of("end", values));
  });
}

TEST(World, ProcessSetsThatAreWrongAreRefused) {
  on_ranks(2, [](auto group) {
    World world(std::move(group), {}, soon());
    const std::vector<std::int32_t> all = {0, 1}, none, twice = {0, 0}, beyond = {2};
    for (const auto& ranks : {none, twice, beyond})
      EXPECT_EQ(status_of([&] { world.add_set(ranks); }), COHORT_INVALID);
    try {
      world.add_set(all);
      FAIL() << "these are the ranks of the world";
    } catch (const StatusError& error) {
      EXPECT_EQ(error.failure().status, COHORT_INVALID);
      EXPECT_THAT(error.failure().message, HasSubstr("already"));
    }
    const std::vector<std::int32_t> own = {world.rank()};
    EXPECT_EQ(status_of([&] { world.add_set(own); }), COHORT_MISMATCH);
    EXPECT_EQ(status_of([&] { world.remove_set(0); }), COHORT_INVALID);
    std::vector<float> values(1, 1);
    run(world, 0, sum_of("end", values));
  });
}

TEST(World, AFailureInOneSetBreaksAll) {
  on_ranks(3, [](auto group) {
    World world(std::move(group), {}, soon());
    const std::vector<std::int32_t> pair = {0, 1};
    world.add_set(pair);
    std::vector<float> values(1, 1);
    if (world.rank() == 1) return;  // closes
    if (world.rank() == 0) {
      EXPECT_EQ(status_of([&] { run(world, 1, sum_of("x", values)); }), COHORT_PEER);
    }
    EXPECT_EQ(status_of([&] { run(world, 0, sum_of("x", values)); }), COHORT_PEER);
  });
}

TEST(World, ErrorsOfASetNameThePeerByItsRankInTheWorld) {
  on_ranks(3, [](auto group) {
    World world(std::move(group), {}, soon());
    const std::vector<std::int32_t> pair = {1, 2};
    world.add_set(pair);
    std::vector<float> values(1, 1);
    if (world.rank() != 1) return;  // closes
    try {
      run(world, 1, sum_of("x", values));
      FAIL() << "the other rank is gone";
    } catch (const StatusError& error) {
      EXPECT_EQ(error.failure().status, COHORT_PEER);
      EXPECT_EQ(error.failure().peer, 2) << error.what();
    }
  });
}

TEST(World, AJoinIsNoStall) {
  testing::internal::CaptureStderr();
  on_ranks(2, [](auto group) {
    WorldOptions options;
    options.stall.warning = 50ms;
    options.stall.shutdown = 100ms;
    World world(std::move(group), options, soon());
    std::vector<float> none;
    if (world.rank() == 1) std::this_thread::sleep_for(400ms);
    run(world, 0, request_of(Kind::join, "join", none));
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(World, ASetThatIsAddedWhileTheWorldFailsIsNone) {
  // In one round: a request, whose end rank 1 holds up, and a new set, which rank 0 then forms.
  struct Ends {
    std::latch first{1}, second{1};
  } ends;
  on_ranks(3, [&](auto group) {
    World world(std::move(group), {}, soon());
    std::vector<float> values(1, 1);
    const auto request = sum_of("x", values);
    request->user = &ends;
    if (world.rank() == 0)
      request->done = [](void* user) { static_cast<Ends*>(user)->first.count_down(); };
    if (world.rank() == 1)
      request->done = [](void* user) { static_cast<Ends*>(user)->second.wait(); };
    world.engine(0)->submit(request, true);
    std::thread breaker;
    if (world.rank() == 0)
      breaker = std::thread([&] {
        ends.first.wait();
        std::this_thread::sleep_for(100ms);
        world.fail({COHORT_PEER, "broken in the meantime"});
        ends.second.count_down();
      });
    const std::vector<std::int32_t> pair = {0, 1};
    const cohort_status status = status_of([&] { world.add_set(pair); });
    if (world.rank() == 0) {
      breaker.join();
      EXPECT_EQ(status, COHORT_PEER);
      EXPECT_THROW(world.engine(1), InvalidInput);
    }
  });
}

TEST(World, AddingSetsEndsWhenTheWorldIsClosed) {
  for (int repeat = 0; repeat < 20; ++repeat)
    on_ranks(2, [&](auto group) {
      World world(std::move(group), {}, soon());
      std::thread closer([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * repeat));
        world.close();
      });
      const std::vector<std::int32_t> own = {0};
      const cohort_status status = status_of([&] {
        for (;;) {
          const int set = world.add_set(own);
          world.remove_set(set);
        }
      });
      EXPECT_TRUE(status == COHORT_CLOSED || status == COHORT_PEER) << status;
      closer.join();
    });
}

TEST(World, AWarningNamesTheRanksThatAreMissing) {
  std::mutex mutex;
  std::set<std::string> notes;
  testing::internal::CaptureStderr();
  on_ranks(3, [&](auto group) {
    WorldOptions options;
    options.stall.warning = 200ms;
    options.stall.post = [&](const std::string& note) {
      const std::lock_guard lock(mutex);
      notes.insert(note);
    };
    options.stall.list = [&](const std::string& prefix) {
      const std::lock_guard lock(mutex);
      std::vector<std::string> found;
      for (const std::string& note : notes)
        if (note.starts_with(prefix)) found.push_back(note);
      return found;
    };
    World world(std::move(group), options, soon());
    std::vector<float> values(1, 1), other(1, 1);
    if (world.rank() == 2) std::this_thread::sleep_for(800ms);  // comes into no round
    run(world, 0, sum_of("late", values));
    // All learn of this one in a round, as rank 1 is there with another.
    const auto early = sum_of("early", values), asynchronous = sum_of("other", other);
    const auto engine = world.engine(0);
    if (world.rank() == 1) engine->submit(asynchronous);
    if (world.rank() == 1) std::this_thread::sleep_for(800ms);
    run(world, 0, early);
    if (world.rank() != 1) engine->submit(asynchronous);
    EXPECT_TRUE(engine->wait(*asynchronous, soon()));
  });
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, HasSubstr("rank 0 has waited"));
  EXPECT_THAT(output, HasSubstr("allreduce 'late' (rank 2 missing)"));
  EXPECT_THAT(output, HasSubstr("allreduce 'early' (rank 1 missing)"));
  EXPECT_THAT(output, HasSubstr("allreduce 'other' (ranks 0, 2 missing)"));
}

TEST(World, AStallBreaksTheWorldWhereThatIsAskedFor) {
  testing::internal::CaptureStderr();
  on_ranks(2, [](auto group) {
    WorldOptions options;
    options.stall.warning = 0ms;
    options.stall.shutdown = 200ms;
    World world(std::move(group), options, soon());
    std::vector<float> values(1, 1);
    const auto own = sum_of(world.rank() == 0 ? "zero" : "one", values);
    const cohort_status status = status_of([&] { run(world, 0, own); });
    EXPECT_TRUE(status == COHORT_TIMED_OUT || status == COHORT_PEER) << status;
  });
  testing::internal::GetCapturedStderr();
}

TEST(World, ATimelineIsATrace) {
  const ScratchFolder folder;
  on_ranks(2, [&](auto group) {
    World world(std::move(group), {}, soon());
    const auto path = folder.path() / ("rank" + std::to_string(world.rank()) + ".json");
    world.start_timeline(path.string(), true);
    EXPECT_EQ(status_of([&] { world.start_timeline(path.string(), true); }), COHORT_INVALID);
    std::vector<float> values(1, 1);
    run(world, 0, sum_of("with \"quotes\"", values));
    // What a process that is killed here leaves: an array without its end.
    std::ifstream file(path);
    const std::string before((std::istreambuf_iterator<char>(file)), {});
    EXPECT_TRUE(nlohmann::json::accept(before + "]")) << before;
    world.stop_timeline();
    std::ifstream whole(path);
    const auto events = nlohmann::json::parse(whole);
    std::set<std::string> names;
    for (const auto& event : events) names.insert(event.at("name"));
    EXPECT_THAT(names, testing::IsSupersetOf({"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START"}));
  });
}

TEST(World, GroupMemoryOutlivesTheWorld) {
  on_ranks(2, [](auto group) {
    World world(std::move(group), {}, soon());
    const collective::Buffer buffer = world.allocate(4096);
    world.close();
    buffer.as<float>()[1023] = 1;
    EXPECT_EQ(status_of([&] { world.allocate(1); }), COHORT_CLOSED);
  });
}

}  // namespace
}  // namespace cohort::capi
