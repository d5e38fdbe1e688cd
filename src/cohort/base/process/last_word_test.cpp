#include "cohort/base/process/last_word.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

namespace cohort {
namespace {

using Kind = LastWord::Kind;
using Loss = LastWord::Loss;

// A launcher's file, as the variable names it to this process.
class LastWordTest : public testing::Test {
 protected:
  LastWordTest() { ::setenv(kLastWordVariable, std::to_string(owner_.fd()).c_str(), 1); }
  ~LastWordTest() override { ::unsetenv(kLastWordVariable); }
  LastWord read(std::optional<int> exit_code = 1) const {
    return owner_.read(::getpid(), exit_code);
  }

  LastWordOwner owner_;
};

TEST_F(LastWordTest, ComesOverWhole) {
  EXPECT_EQ(read().kind, Kind::none);
  LastWord word{.kind = Kind::lost_peer,
                .peer = "worker/1",
                .loss = Loss::left,
                .during = "all_reduce #3 of 1000 x f32",
                .message = "first line\nsecond line",
                .exit_code = 1};
  say_last_word(word);
  word.pid = ::getpid();
  EXPECT_EQ(read(), word);
  EXPECT_EQ(last_word_so_far(), word);
  say_last_word({.kind = Kind::done});
  EXPECT_EQ(read().message, "");
}

TEST_F(LastWordTest, TheFirstLossCountsUntilANewGroupStands) {
  note_lost_peer("worker/1", Loss::died, "barrier #1", "rank 1 died");
  note_lost_peer("worker/2", Loss::left, "barrier #2", "rank 2 left the group");
  EXPECT_EQ(read().peer, "worker/1");
  forget_lost_peer();
  EXPECT_EQ(read().kind, Kind::none);
  say_last_word({.kind = Kind::error, .message = "x"});
  forget_lost_peer();
  EXPECT_EQ(read().kind, Kind::error);
}

TEST_F(LastWordTest, IsBoundedAndCutAtTheMessage) {
  say_last_word({.kind = Kind::error,
                 .peer = std::string(10'000, 'p'),
                 .during = std::string(10'000, 'd'),
                 .message = std::string(1 << 20, 'm')});
  const LastWord word = read();
  EXPECT_EQ(word.kind, Kind::error);
  EXPECT_LT(word.peer.size(), 1000u);
  EXPECT_LT(word.message.size(), kLastWordBytes);
  EXPECT_GT(word.message.size(), 1000u);
  EXPECT_LT(::write(owner_.fd(), std::string(2 * kLastWordBytes, 'x').data(), 2 * kLastWordBytes),
            static_cast<ssize_t>(2 * kLastWordBytes));  // it cannot be made larger
}

TEST_F(LastWordTest, OfAChildCountsOnlyWhenTheTaskEndedAsTheChildDid) {
  say_last_word({.kind = Kind::error, .message = "a helper's", .exit_code = 3});
  const pid_t task = ::getpid() + 1;
  EXPECT_EQ(owner_.read(task, 3).message, "a helper's");
  EXPECT_EQ(owner_.read(task, 1).kind, Kind::none);
  EXPECT_EQ(owner_.read(task, std::nullopt).kind, Kind::none);
  EXPECT_EQ(owner_.read(::getpid(), std::nullopt).message, "a helper's");
}

TEST_F(LastWordTest, WhatIsNoneIsNone) {
  std::mt19937 random(7);
  say_last_word({.kind = Kind::lost_peer, .peer = "worker/1", .message = "m", .exit_code = 1});
  std::string good(kLastWordBytes, '\0');
  ASSERT_GT(::pread(owner_.fd(), good.data(), good.size(), 0), 0);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good.substr(0, random() % 120);
    for (int changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const LastWord word = decode_last_word(bytes);  // anything may come, nothing may break
    EXPECT_LE(word.message.size(), kLastWordBytes);
  }
  EXPECT_EQ(decode_last_word("").kind, Kind::none);
  EXPECT_EQ(decode_last_word("cohort last word 1\nboast\n1\n\n\n0\n\nm").kind, Kind::none);
  EXPECT_EQ(decode_last_word("cohort last word 1\nerror\n1\n\n\n9\n\nm").kind, Kind::none);
}

TEST(LastWordWithoutALauncher, NothingHappens) {
  ::unsetenv(kLastWordVariable);
  say_last_word({.kind = Kind::error});
  EXPECT_EQ(last_word_so_far().kind, Kind::none);
  // A wrapper closed the descriptor, and a file of the program's has its number now.
  char name[] = "/tmp/cohort-test-XXXXXX";
  const UniqueFd file(::mkstemp(name));
  ::unlink(name);
  ::setenv(kLastWordVariable, std::to_string(file.get()).c_str(), 1);
  say_last_word({.kind = Kind::error});
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_END), 0);
  for (const char* value : {"", "x", "-1", "99999999999", "987654"}) {
    ::setenv(kLastWordVariable, value, 1);
    say_last_word({.kind = Kind::error});
    EXPECT_EQ(last_word_so_far().kind, Kind::none);
  }
  ::unsetenv(kLastWordVariable);
}

}  // namespace
}  // namespace cohort
