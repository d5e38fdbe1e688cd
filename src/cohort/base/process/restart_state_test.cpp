#include "cohort/base/process/restart_state.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort {
namespace {

using Content = RestartStateOwner::Content;
using Flag = RestartStateOwner::Flag;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::optional<RestartState> memory_of(const RestartStateOwner& owner) {
  std::optional<std::string> state;
  if (owner.state() >= 0) state = std::to_string(owner.state());
  return RestartState::from_variables(std::to_string(owner.flag()), state);
}

bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(RestartState, ATaskThatSaysNothingIsKnownToHaveSaidNothing) {
  RestartStateOwner owner(Content::flag);
  EXPECT_EQ(owner.read_flag(), Flag::nothing);
  auto memory = memory_of(owner);
  EXPECT_EQ(owner.read_flag(), Flag::nothing);
}

TEST(RestartState, TheWordOfATaskHoldsUntilTakenBackAlsoForTheNextProcess) {
  RestartStateOwner owner(Content::flag);
  memory_of(owner)->allow_restart(true);
  EXPECT_EQ(owner.read_flag(), Flag::restart);
  memory_of(owner)->allow_restart(false);
  EXPECT_EQ(owner.read_flag(), Flag::no_restart);
  memory_of(owner)->set_finished();
  EXPECT_EQ(owner.read_flag(), Flag::finished);
}

TEST(RestartState, StateOutlivesWhoeverWroteItAndStartsEmpty) {
  RestartStateOwner owner(Content::flag_and_state);
  {
    UniqueFd first = memory_of(owner)->state_file();
    struct stat status {};
    ASSERT_EQ(::fstat(first.get(), &status), 0);
    EXPECT_EQ(status.st_size, 0);
    ASSERT_EQ(::pwrite(first.get(), "kept", 4, 1 << 20), 4);
  }
  char text[5] = {};
  UniqueFd second = memory_of(owner)->state_file();
  ASSERT_EQ(::pread(second.get(), text, 4, 1 << 20), 4);
  EXPECT_STREQ(text, "kept");
}

TEST(RestartState, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(RestartState::from_variables(std::nullopt, std::nullopt));
  EXPECT_FALSE(RestartState::from_variables("", ""));
  RestartStateOwner owner(Content::flag);
  EXPECT_FALSE(memory_of(owner)->state_file().valid());
}

TEST(RestartState, NothingOfItReachesAProgramThatTheTaskStarts) {
  RestartStateOwner owner(Content::flag_and_state);
  EXPECT_TRUE(is_close_on_exec(owner.flag()));
  EXPECT_TRUE(is_close_on_exec(owner.state()));
  EXPECT_TRUE(is_close_on_exec(memory_of(owner)->state_file().get()));
}

TEST(RestartState, ADescriptorThatIsNotOursIsRefusedWithTheVariable) {
  RestartStateOwner owner(Content::flag);
  UniqueFd other(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { RestartState::from_variables(std::to_string(other.get()), std::nullopt); }),
              AllOf(HasSubstr("COHORT_RESTART_FD"), HasSubstr("no open memory file")));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { RestartState::from_variables(std::to_string(owner.flag()), "999999"); }),
              AllOf(HasSubstr("COHORT_KEEP_FD is 999999"), HasSubstr("Bad file descriptor")));
  EXPECT_THAT(message_of<InvalidInput>([] { RestartState::from_variables("-3", std::nullopt); }),
              HasSubstr("COHORT_RESTART_FD is '-3'"));
}

TEST(RestartState, ATaskCannotMakeItsMarkGrow) {
  RestartStateOwner owner(Content::flag);
  EXPECT_NE(::ftruncate(owner.flag(), 1 << 20), 0);
}

}  // namespace
}  // namespace cohort
