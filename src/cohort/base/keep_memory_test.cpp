#include "cohort/base/keep_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort {
namespace {

using Content = KeepMemoryOwner::Content;
using Mark = KeepMemoryOwner::Mark;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::optional<KeepMemory> memory_of(const KeepMemoryOwner& owner) {
  std::optional<std::string> state;
  if (owner.state() >= 0) state = std::to_string(owner.state());
  return KeepMemory::from_variables(std::to_string(owner.mark()), state);
}

bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(KeepMemory, ATaskThatSaysNothingIsKnownToHaveSaidNothing) {
  KeepMemoryOwner owner(Content::mark);
  EXPECT_EQ(owner.read_mark(), Mark::nothing);
  auto memory = memory_of(owner);
  EXPECT_EQ(owner.read_mark(), Mark::nothing);
}

TEST(KeepMemory, TheWordOfATaskHoldsUntilTakenBackAlsoForTheNextProcess) {
  KeepMemoryOwner owner(Content::mark);
  memory_of(owner)->allow_restart(true);
  EXPECT_EQ(owner.read_mark(), Mark::restart);
  memory_of(owner)->allow_restart(false);
  EXPECT_EQ(owner.read_mark(), Mark::no_restart);
  memory_of(owner)->set_finished();
  EXPECT_EQ(owner.read_mark(), Mark::finished);
}

TEST(KeepMemory, StateOutlivesWhoeverWroteItAndStartsEmpty) {
  KeepMemoryOwner owner(Content::mark_and_state);
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

TEST(KeepMemory, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(KeepMemory::from_variables(std::nullopt, std::nullopt));
  EXPECT_FALSE(KeepMemory::from_variables("", ""));
  KeepMemoryOwner owner(Content::mark);
  EXPECT_FALSE(memory_of(owner)->state_file().valid());
}

TEST(KeepMemory, NothingOfItReachesAProgramThatTheTaskStarts) {
  KeepMemoryOwner owner(Content::mark_and_state);
  EXPECT_TRUE(is_close_on_exec(owner.mark()));
  EXPECT_TRUE(is_close_on_exec(owner.state()));
  EXPECT_TRUE(is_close_on_exec(memory_of(owner)->state_file().get()));
}

TEST(KeepMemory, ADescriptorThatIsNotOursIsRefusedWithTheVariable) {
  KeepMemoryOwner owner(Content::mark);
  UniqueFd other(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { KeepMemory::from_variables(std::to_string(other.get()), std::nullopt); }),
              AllOf(HasSubstr("COHORT_RESTART_FD"), HasSubstr("no open memory file")));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { KeepMemory::from_variables(std::to_string(owner.mark()), "999999"); }),
              AllOf(HasSubstr("COHORT_KEEP_FD is 999999"), HasSubstr("Bad file descriptor")));
  EXPECT_THAT(message_of<InvalidInput>([] { KeepMemory::from_variables("-3", std::nullopt); }),
              HasSubstr("COHORT_RESTART_FD is '-3'"));
}

TEST(KeepMemory, ATaskCannotMakeItsMarkGrow) {
  KeepMemoryOwner owner(Content::mark);
  EXPECT_NE(::ftruncate(owner.mark(), 1 << 20), 0);
}

}  // namespace
}  // namespace cohort
