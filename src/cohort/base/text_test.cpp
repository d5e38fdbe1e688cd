#include "cohort/base/text.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,b,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
}

TEST(Text, TrimTakesSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t x y\n"), "x y");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, ParseUnsignedTakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_unsigned("65535"), 65535u);
  for (const char* bad : {"", "3x", "-1", " 1", "99999999999999999999"})
    EXPECT_FALSE(parse_unsigned(bad).has_value()) << bad;
}

TEST(Text, NearestFindsATypoButNothingFarAway) {
  std::vector<std::string> keys = {"workers", "ps", "max-restarts"};
  EXPECT_EQ(nearest("wrokers", keys), "workers");
  EXPECT_EQ(nearest("max-restart", keys), "max-restarts");
  EXPECT_EQ(nearest("zebra-crossing", keys), "");
  EXPECT_EQ(nearest(std::string(100'000'000, 'k'), keys), "");  // without comparing letters
}

TEST(Text, ShellQuoteLeavesPlainWordsAlone) {
  EXPECT_EQ(shell_quote("--batch_size=64"), "--batch_size=64");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote(""), "''");
}

TEST(Text, ControlCharactersAreShownNotObeyed) {
  EXPECT_EQ(escape_controls("\x1b[2Jgone\n"), "\\x1b[2Jgone\\x0a");
  EXPECT_EQ(escape_controls("\xc2\x9b"
                            "2J"),
            "\\xc2\\x9b"
            "2J");  // CSI as one character
  EXPECT_EQ(escape_controls("\x9b"
                            "2J"),
            "\\x9b"
            "2J");
  EXPECT_EQ(escape_controls("a\xe2\x80\xae"
                            "b"),
            "a\\xe2\\x80\\xae"
            "b");  // right to left
  EXPECT_EQ(escape_controls("caf\xc3\xa9 \xe2\x82\xac \xc3\x9f"),
            "caf\xc3\xa9 \xe2\x82\xac \xc3\x9f");
}

}  // namespace
}  // namespace cohort
