#include "cohort/collective/group.h"

#include <gmock/gmock.h>

#include <thread>

#include "cohort/base/message_of_test.h"
#include "cohort/collective/form.h"

namespace cohort::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What rank 1 hears when rank 0 goes after `last` has made its last calls and waited for them.
template <typename Last>
std::string heard_after(Last&& last) {
  auto groups = make_inproc_groups(2);
  std::jthread first([&] {
    last(*groups[0], 1);
    groups[0].reset();
  });
  last(*groups[1], 0);
  std::string heard = message_of<PeerError>([&] { groups[1]->barrier(); });
  first.join();
  return heard;
}

// The group's threads may be busy with calls that are over: a rank that has waited for all of its
// calls leaves, and breaks nothing that its peers still have under way.
TEST(Group, ARankThatHasWaitedForItsMessagesLeaves) {
  for (int round = 0; round < 100; ++round)
    EXPECT_THAT(heard_after([](Group& group, int peer) {
                  std::vector<std::int32_t> out(5, group.rank()), in(5, -1);
                  std::vector<Work> works;
                  for (std::size_t i = 0; i < out.size(); ++i) {
                    works.push_back(group.send_async(&out[i], 1, DataType::i32, peer));
                    works.push_back(group.recv_async(&in[i], 1, DataType::i32, peer));
                  }
                  for (Work& work : works) work.wait();
                  EXPECT_EQ(in, std::vector<std::int32_t>(5, peer));
                }),
                AllOf(HasSubstr("left the group"), Not(HasSubstr("aborted"))));
}

TEST(Group, ARankThatHasWaitedForItsCollectivesLeaves) {
  for (int round = 0; round < 100; ++round)
    EXPECT_THAT(heard_after([](Group& group, int) {
                  float value = 1;
                  group.all_reduce_async(&value, &value, 1, DataType::f32).wait();
                  EXPECT_EQ(value, 2);
                }),
                AllOf(HasSubstr("left the group"), Not(HasSubstr("aborted"))));
}

TEST(Group, ARankThatGoesWithACallUnderWayAbortsIt) {
  auto groups = make_inproc_groups(2);
  float value = 1;
  Work work = groups[0]->all_reduce_async(&value, &value, 1, DataType::f32);
  groups[0].reset();
  EXPECT_THAT(message_of<PeerError>([&] { work.wait(); }), HasSubstr("under way"));
  EXPECT_THAT(message_of<PeerError>([&] { groups[1]->barrier(); }), HasSubstr("under way"));
}

}  // namespace
}  // namespace cohort::collective
