#include "cohort/launch/ending/remote_last_word.h"

#include <gtest/gtest.h>

namespace cohort::launch {
namespace {

const LastWord kSaid{.kind = LastWord::Kind::lost_peer,
                     .peer = "worker/1",
                     .message = "two\nlines",
                     .exit_code = 1,
                     .pid = 12};

TEST(LastWordFilter, TakesTheWordOutOfTheOutputHoweverItArrives) {
  const std::string mark = new_last_word_mark();
  const std::string stream = "step 1\nno end" + frame_last_word(mark, kSaid);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    LastWordFilter filter(mark);
    std::string output;
    for (std::size_t at = 0; at < stream.size(); at += piece)
      output += filter.feed(std::string_view(stream).substr(at, piece));
    output += filter.finish();
    EXPECT_EQ(output, "step 1\nno end");
    EXPECT_EQ(filter.word(), kSaid);
  }
}

TEST(LastWordFilter, PassesEverythingElseOn) {
  const std::string mark = new_last_word_mark();
  LastWordFilter filter(mark);
  const std::string similar = "\x1e" + mark.substr(0, 8) + "\x1e\x1e" + mark;
  std::string output = filter.feed("a\x1e" + similar);
  output += filter.feed("");
  output += filter.finish();
  EXPECT_EQ(output, "a\x1e" + similar);
  EXPECT_EQ(filter.word().kind, LastWord::Kind::none);
}

TEST(LastWordFilter, KeepsNoMoreThanAWord) {
  LastWordFilter filter("m");
  filter.feed("\x1em ");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(filter.feed(std::string(10'000, 'x')), "");
  EXPECT_EQ(filter.word().kind, LastWord::Kind::none);
}

}  // namespace
}  // namespace cohort::launch
