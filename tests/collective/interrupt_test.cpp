// Conformance: what ranks see when one of them is interrupted (base/process/wait_interrupt.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "cohort/base/message_of_test.h"
#include "cohort/base/process/wait_interrupt.h"
#include "spawn.h"

namespace cohort::collective::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Interrupt : public ::testing::TestWithParam<Factory> {};
INSTANTIATE_TEST_SUITE_P(Transports, Interrupt, ::testing::ValuesIn(all_factories()),
                         [](const auto& info) { return info.param.name; });

// Rank 1 is interrupted in `call`, which rank 0 does not make before that. The others' call may still
// end well, where rank 1 had sent all of its part; no later one does.
void expect_heard_by_all(const Factory& factory, const std::function<void(Group&)>& call) {
  std::latch interrupted(1);
  factory.spawn(3, std::chrono::seconds(60), [&](Group& group) {
    group.barrier();
    if (group.rank() == 1) {
      const WaitInterrupt interrupt([] { return true; });
      EXPECT_THROW(call(group), Interrupted);
      interrupted.count_down();
    }
    if (group.rank() == 0) interrupted.wait();
    if (group.rank() != 1) try {
        call(group);
      } catch (const PeerError&) {
      }
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(message_of<PeerError>([&] { call(group); }),
                  AllOf(HasSubstr("rank 1"), HasSubstr("interrupted")));
  });
}

TEST_P(Interrupt, OfASmallCallReachesAll) {
  expect_heard_by_all(GetParam(), [](Group& group) {
    std::vector<float> data(10);
    group.all_reduce(std::span(data));
  });
}

TEST_P(Interrupt, OfALargeCallReachesAll) {
  expect_heard_by_all(GetParam(), [](Group& group) {
    std::vector<float> data(300'000);
    group.all_reduce(std::span(data));
  });
}

TEST_P(Interrupt, OfACallBehindAnAsynchronousOneReachesAll) {
  expect_heard_by_all(GetParam(), [](Group& group) {
    std::vector<float> data(5000), other(5000);
    Work work = group.all_reduce_async(data.data(), data.data(), data.size(), DataType::f32);
    try {
      group.all_reduce(std::span(other));
    } catch (...) {
      try {
        work.wait();
      } catch (const PeerError&) {
      }
      throw;
    }
  });
}

TEST_P(Interrupt, ThatDoesNotComeCostsNothing) {
  GetParam().spawn(3, std::chrono::seconds(60), [](Group& group) {
    const WaitInterrupt interrupt([] { return false; });
    for (int i = 0; i < 20; ++i) {
      std::vector<float> data(5000, 1);
      group.all_reduce(std::span(data));
      EXPECT_EQ(data.back(), 3);
    }
  });
}

}  // namespace
}  // namespace cohort::collective::testing
