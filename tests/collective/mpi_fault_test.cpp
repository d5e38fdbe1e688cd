// What the mpi backend does at deadlines. Ranks that must not come to a call wait in another group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/collective/mpi/mpi.h"
#include "mpi_runtime.h"

namespace cohort::collective::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// `late` is called on rank 1 of three when the others are done with `call`, which it kept waiting.
void without_rank_1(const std::function<void(Group&)>& call,
                    const std::function<void(Group&)>& late) {
  const auto group = mpi::make_group(runtime(), 3, std::chrono::seconds(60));
  const auto aside = mpi::make_group(runtime(), 3, std::chrono::seconds(60));
  if (!group) return;
  if (group->rank() != 1) call(*group);
  aside->barrier();
  if (group->rank() == 1) late(*group);
}

TEST(MpiFault, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  without_rank_1(
      [](Group& group) {
        std::vector<float> data(1000);
        const auto start = Deadline::Clock::now();
        const std::string text = message_of<TimeoutError>([&] {
          group.all_reduce(std::span(data), {.deadline = Deadline::after(milliseconds(200))});
        });
        EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(5));
        EXPECT_THAT(text, AllOf(HasSubstr("rank 1 on "), HasSubstr("all_reduce #1"),
                                Not(HasSubstr("rank 0")), Not(HasSubstr("rank 2"))));
        message_of<TimeoutError>([&] { group.barrier(); });
      },
      [](Group& group) { message_of<TimeoutError>([&] { group.barrier(); }); });
}

TEST(MpiFault, ASubgroupThatAMemberDoesNotJoinEndsAtItsDeadline) {
  without_rank_1(
      [](Group& group) {
        const auto start = Deadline::Clock::now();
        const std::string text = message_of<TimeoutError>([&] {
          const std::vector<int> all{0, 1, 2};
          group.subgroup(all, {Deadline::after(milliseconds(200))});
        });
        EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(5));
        EXPECT_THAT(text, AllOf(HasSubstr("rank 1 on "), HasSubstr("subgroup")));
      },
      [](Group& group) {
        const std::vector<int> all{0, 1, 2};
        message_of<TimeoutError>([&] { group.subgroup(all, {}); });
      });
}

TEST(MpiFault, AMessageThatDoesNotComeNamesItsSender) {
  without_rank_1(
      [](Group& group) {
        float x = 0;
        if (group.rank() != 0) return;
        const std::string text = message_of<TimeoutError>(
            [&] { group.recv(&x, 1, DataType::f32, 1, {Deadline::after(milliseconds(100))}); });
        EXPECT_THAT(text, HasSubstr("rank 1 on "));
      },
      [](Group&) {});
}

}  // namespace
}  // namespace cohort::collective::testing
