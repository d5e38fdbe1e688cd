// Conformance: what ranks see when calls differ, peers leave or are late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "spawn.h"

namespace cohort::collective::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Fault : public ::testing::TestWithParam<Factory> {
 protected:
  void spawn(int size, std::chrono::milliseconds timeout, const Body& body) {
    GetParam().spawn(size, timeout, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, Fault, ::testing::ValuesIn(all_factories()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Fault, DifferentCallsAreReportedOnEveryRankWithBothSides) {
  spawn(3, std::chrono::seconds(60), [](Group& group) {
    group.barrier();
    std::vector<float> data(200);
    const auto start = Deadline::Clock::now();
    const std::string text = message_of<MismatchError>([&] {
      if (group.rank() == 0) group.all_reduce(std::span(data).first(100));
      if (group.rank() == 1) group.all_reduce(std::span(data).first(101));
      if (group.rank() == 2) group.broadcast(std::span(data).first(100), 0);
    });
    EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(10));
    EXPECT_THAT(text, HasSubstr("#2"));
    if (group.rank() < 2) {
      EXPECT_THAT(text, HasSubstr("100 x f32"));
      EXPECT_THAT(text, AnyOf(HasSubstr("101 x f32"), HasSubstr("broadcast")));
    } else {
      EXPECT_THAT(text, HasSubstr("broadcast"));
      EXPECT_THAT(text, HasSubstr("all_reduce"));
    }
    message_of<MismatchError>([&] { group.barrier(); });
  });
}

// Where ranks talk to a few others only, those have to pass it on. It is the group's first call: a
// rank that fails may be gone before some peers' connections with it are made.
TEST_P(Fault, ADifferenceAtOneRankReachesAll) {
  for (const int odd : {0, 3, 6})
    for (const std::size_t count : {10ul, 5000ul})
      spawn(7, std::chrono::seconds(60), [&](Group& group) {
        std::vector<float> data(count + 1);
        const std::string text = message_of<MismatchError>([&] {
          group.all_reduce(std::span(data).first(count + (group.rank() == odd ? 1 : 0)));
        });
        EXPECT_THAT(text, HasSubstr(std::to_string(count) + " x f32"));
        EXPECT_THAT(text, HasSubstr(std::to_string(count + 1) + " x f32"));
      });
}

TEST_P(Fault, DifferentTypesOperationsAndRootsDiffer) {
  const std::vector<std::function<void(Group&, float*)>> calls{
      [](Group& g, float* d) {
        g.all_reduce(d, d, 64, g.rank() == 0 ? DataType::f32 : DataType::i32);
      },
      [](Group& g, float* d) {
        g.all_reduce(d, d, 64, DataType::f32,
                     {.op = g.rank() == 0 ? ReduceOp::sum : ReduceOp::maximum});
      },
      [](Group& g, float* d) { g.broadcast(d, 64, DataType::f32, g.rank()); },
      [](Group& g, float* d) {
        g.all_reduce(d, d, 64, DataType::f32, {.pre_scale = g.rank() == 0 ? 1.0 : 0.5});
      },
      [](Group& g, float* d) {
        const std::vector<std::size_t> counts{3, g.rank() == 0 ? 4ul : 5ul};
        std::vector<float> out(16);
        g.all_gather_v(d, out.data(), counts, DataType::f32);
      }};
  for (const auto& call : calls)
    spawn(2, std::chrono::seconds(60), [&](Group& group) {
      std::vector<float> data(64);
      message_of<MismatchError>([&] { call(group, data.data()); });
    });
}

TEST_P(Fault, CountsOfAllToAllVThatDifferAreReportedOnEveryRankWithBothSides) {
  // Neighbours share a host in some placements, 0 and 3 in none.
  for (const auto& [from, to] : {std::pair(0, 3), std::pair(1, 0), std::pair(3, 2)})
    spawn(4, std::chrono::seconds(60), [&, from = from, to = to](Group& group) {
      std::vector<std::size_t> sends(4, 2000), receives(4, 2000);
      if (group.rank() == from) sends[static_cast<std::size_t>(to)] = 2001;
      std::vector<float> in(9000), out(9000);
      const std::string text = message_of<MismatchError>(
          [&] { group.all_to_all_v(in.data(), sends, out.data(), receives, DataType::f32); });
      EXPECT_THAT(text, HasSubstr("all_to_all_v #1: rank " + std::to_string(from)));
      EXPECT_THAT(text, HasSubstr("sends 2001 x f32 to rank " + std::to_string(to)));
      EXPECT_THAT(text, HasSubstr("expects 2000"));
    });
}

TEST_P(Fault, APeerThatDoesNotComeIsNamedAtTheDeadline) {
  std::latch passed(1);  // rank 0's deadline
  spawn(3, std::chrono::seconds(60), [&](Group& group) {
    std::vector<float> data(100'000);
    if (group.rank() == 1) {
      passed.wait();
      message_of<TimeoutError>([&] { group.barrier(); });
      return;
    }
    const auto start = Deadline::Clock::now();
    const std::string text = message_of<TimeoutError>([&] {
      group.all_reduce(
          std::span(data),
          {.deadline = Deadline::after(group.rank() == 0 ? std::chrono::milliseconds(200)
                                                         : std::chrono::milliseconds(30'000))});
    });
    EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(5));
    EXPECT_THAT(text, HasSubstr("rank 1"));
    EXPECT_THAT(text, HasSubstr("all_reduce #1"));
    message_of<TimeoutError>([&] { group.barrier(); });
    if (group.rank() == 0) passed.count_down();
  });
}

TEST_P(Fault, APeerThatLeavesIsNamedAtOnce) {
  spawn(2, std::chrono::seconds(60), [](Group& group) {
    group.barrier();
    if (group.rank() == 1) return;
    std::vector<float> data(100'000);
    const std::string text = message_of<PeerError>([&] { group.all_reduce(std::span(data)); });
    EXPECT_THAT(text, HasSubstr("rank 1"));
    EXPECT_THAT(text, HasSubstr("left"));
  });
}

TEST_P(Fault, AbortReachesCallsUnderWay) {
  spawn(2, std::chrono::seconds(60), [](Group& group) {
    if (group.rank() == 0) {
      group.abort("the data set is gone");
      return;
    }
    const std::string text = message_of<PeerError>([&] { group.barrier(); });
    EXPECT_THAT(text, HasSubstr("the data set is gone"));
  });
}

TEST_P(Fault, MessagesOfDifferentSizesAreReported) {
  spawn(2, std::chrono::seconds(60), [](Group& group) {
    std::vector<float> data(50'000);
    if (group.rank() == 0) {
      EXPECT_ANY_THROW({
        group.send(data.data(), 40'000, DataType::f32, 1);
        group.barrier();
      });
    } else {
      EXPECT_ANY_THROW(group.recv(data.data(), 50'000, DataType::f32, 0));
    }
  });
}

TEST_P(Fault, WrongArgumentsLeaveTheGroupIntact) {
  spawn(2, std::chrono::seconds(60), [](Group& group) {
    float x = 1;
    EXPECT_THROW(group.broadcast(&x, 1, DataType::f32, 2), InvalidInput);
    EXPECT_THROW(group.all_reduce(nullptr, &x, 1, DataType::f32), InvalidInput);
    EXPECT_THROW(group.send(&x, 1, DataType::f32, group.rank()), InvalidInput);
    bool flag = true;
    EXPECT_THROW(group.all_reduce(&flag, &flag, 1, DataType::boolean, {.op = ReduceOp::average}),
                 InvalidInput);
    std::vector<float> overlapping(3);
    EXPECT_THROW(group.all_reduce(overlapping.data(), overlapping.data() + 1, 2, DataType::f32),
                 InvalidInput);
    group.all_reduce(&x, &x, 1, DataType::f32);
    EXPECT_EQ(x, 2);
  });
}

TEST_P(Fault, AWorkThatIsNotDoneTimesOutAndCanBeWaitedForAgain) {
  spawn(2, std::chrono::seconds(60), [](Group& group) {
    float x = 1;
    if (group.rank() == 0) {
      Work work = group.all_reduce_async(&x, &x, 1, DataType::f32);
      EXPECT_THROW(work.wait(Deadline::after(std::chrono::milliseconds(20))), TimeoutError);
      float go = 0;
      group.send(&go, 1, DataType::f32, 1);
      work.wait();
    } else {
      float go = 0;
      group.recv(&go, 1, DataType::f32, 0);
      group.all_reduce(&x, &x, 1, DataType::f32);
    }
    EXPECT_EQ(x, 2);
  });
}

}  // namespace
}  // namespace cohort::collective::testing
