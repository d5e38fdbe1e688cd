// Index and search of logs.
#include <gmock/gmock.h>

#include "cohort/service/http/api_error.h"
#include "cohort/service/logs/log_index.h"
#include "cohort/service/logs/log_search.h"
#include "cohort/service/logs/weights_line.h"

namespace cohort::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kAll = std::uint64_t{1} << 40;

// A log in memory, which never gives more than `most` bytes at a time.
struct TestLog {
  std::string text;
  std::size_t largest = 0;  // that was asked for

  ReadLog reader() {
    return [this](std::uint64_t offset, std::size_t most) {
      largest = std::max(largest, most);
      return offset < text.size() ? text.substr(offset, most) : std::string();
    };
  }
};

TEST(LogIndex, TellsWhereEveryNthLineBegins) {
  TestLog log;
  EXPECT_THAT(index_log(log.reader(), 0, 0, 2, kAll).offsets, ElementsAre(0));
  EXPECT_EQ(index_log(log.reader(), 0, 0, 2, kAll).lines, 0U);
  log.text = "a\nbb\n\nccc\nd";
  const LogIndex index = index_log(log.reader(), 0, 0, 2, kAll);
  EXPECT_THAT(index.offsets, ElementsAre(0, 5, 10));
  EXPECT_EQ(index.first, 0U);
  EXPECT_EQ(index.line, 4U);
  EXPECT_EQ(index.lines, 5U);
  EXPECT_EQ(index.size, log.text.size());
  EXPECT_FALSE(index.more);
}

TEST(LogIndex, GoesOnWhereItEndedWhateverTheBound) {
  TestLog log;
  for (int i = 0; i < 1000; ++i)
    log.text += std::string(static_cast<std::size_t>(i % 7), 'x') + "\n";
  log.text += "no end";
  const LogIndex whole = index_log(log.reader(), 0, 0, 10, kAll);
  EXPECT_EQ(whole.offsets.size(), 101U);
  for (const std::uint64_t bound : {1, 2, 3, 10, 4001, 100'000}) {
    LogIndex part = index_log(log.reader(), 0, 0, 10, bound);
    std::vector<std::uint64_t> offsets = part.offsets;
    while (part.more) {
      part = index_log(log.reader(), part.size, part.line, 10, bound);
      EXPECT_EQ(part.first, offsets.size() * 10);
      offsets.insert(offsets.end(), part.offsets.begin(), part.offsets.end());
    }
    EXPECT_EQ(offsets, whole.offsets) << bound;
    EXPECT_EQ(part.lines, whole.lines) << bound;
    EXPECT_EQ(part.size, whole.size) << bound;
  }
  // The log grows.
  const std::uint64_t begin = log.text.size() + 1;
  for (int i = 0; i < 10; ++i) log.text += "\n";
  const LogIndex more = index_log(log.reader(), whole.size, whole.line, 10, kAll);
  EXPECT_EQ(more.lines, 1010U);
  EXPECT_EQ(more.first, 1010U);
  EXPECT_THAT(more.offsets, ElementsAre(begin + 9));
}

TEST(LogIndex, HoldsAPieceOfTheLogAtATime) {
  TestLog log{.text = std::string(std::size_t{20} << 20, 'x')};
  const LogIndex index = index_log(log.reader(), 0, 0, 1000, std::uint64_t{4} << 20);
  EXPECT_TRUE(index.more);
  EXPECT_EQ(index.size, std::uint64_t{4} << 20);
  EXPECT_LE(log.largest, std::size_t{1} << 20);
}

// "line@offset text [match]"
std::vector<std::string> shown(const LogMatches& found) {
  std::vector<std::string> all;
  for (const LogMatch& match : found.matches)
    all.push_back(fmt::format("{}@{} {} [{}]", match.line, match.offset, match.text,
                              match.text.substr(match.start, match.length)));
  return all;
}

std::vector<std::string> search(const std::string& text, const std::string& q,
                                LogSearch::Options options = {}) {
  TestLog log{.text = text};
  return shown(LogSearch(q, options).run(log.reader(), 0, 0, {}));
}

TEST(LogSearch, FindsTheFirstMatchOfEachLine) {
  const std::string text = "one two\nTwo two\n\ntwelve\nlast tw";
  EXPECT_THAT(search(text, "two"), ElementsAre("0@0 one two [two]", "1@8 Two two [Two]"));
  EXPECT_THAT(search(text, "two", {.matches_case = true}),
              ElementsAre("0@0 one two [two]", "1@8 Two two [two]"));
  EXPECT_THAT(search(text, "tw"), ElementsAre("0@0 one two [tw]", "1@8 Two two [Tw]",
                                              "3@17 twelve [tw]", "4@24 last tw [tw]"));
  EXPECT_THAT(search(text, "t.o"), IsEmpty());
  EXPECT_THAT(search(text, "^t\\w+$", {.is_regex = true}), ElementsAre("3@17 twelve [twelve]"));
  EXPECT_THAT(search(text, "two\\s+Two", {.is_regex = true, .matches_case = true}),
              IsEmpty());  // within one line
  EXPECT_THAT(search(text, "[^x]+", {.is_regex = true}),
              ElementsAre("0@0 one two [one two]", "1@8 Two two [Two two]", "3@17 twelve [twelve]",
                          "4@24 last tw [last tw]"));
  EXPECT_EQ(search(text, "x*", {.is_regex = true}).size(), 5U);
  EXPECT_EQ(search("a\nb\n", "$", {.is_regex = true}).size(), 2U);
}

TEST(LogSearch, RefusesWhatIsNoExpression) {
  const auto refusal = [](const std::string& q, bool regex) -> std::string {
    try {
      LogSearch(q, {.is_regex = regex});
      return "";
    } catch (const ApiError& error) {
      return fmt::format("{} {}", error.status(), error.message());
    }
  };
  EXPECT_EQ(refusal("(", false), "");
  EXPECT_EQ(refusal("(", true), "400 q is no regular expression: missing ): (");
  EXPECT_THAT(refusal("", false), testing::StartsWith("400"));
  EXPECT_THAT(refusal(std::string(1001, 'x'), false), testing::StartsWith("400"));
  EXPECT_THAT(refusal("(?=x)", true), testing::StartsWith("400"));
}

TEST(LogSearch, GoesOnWhereItEnded) {
  TestLog log;
  for (int i = 0; i < 500; ++i) log.text += fmt::format("line {}{}\n", i, i % 5 == 0 ? " hit" : "");
  const LogSearch hits("HIT", {});
  const auto whole = shown(hits.run(log.reader(), 0, 0, {}));
  EXPECT_EQ(whole.size(), 100U);
  std::vector<std::string> parts;
  std::uint64_t from = 0, line = 0;
  for (int calls = 0; calls < 100; ++calls) {
    const LogMatches found = hits.run(log.reader(), from, line, {.matches = 7});
    for (const std::string& one : shown(found)) parts.push_back(one);
    if (!found.next) break;
    EXPECT_EQ(found.matches.size(), 7U);
    from = *found.next;
    line = found.next_line;
  }
  EXPECT_EQ(parts, whole);
}

TEST(LogSearch, ReadsABoundedPart) {
  TestLog log;
  for (int i = 0; i < 300'000; ++i) log.text += "nothing to see here\n";
  log.text += "needle\n";
  const LogSearch needle("needle", {});
  LogMatches found = needle.run(log.reader(), 0, 0, {.bytes = std::uint64_t{2} << 20});
  EXPECT_THAT(found.matches, IsEmpty());
  ASSERT_TRUE(found.next);
  EXPECT_LT(*found.next, std::uint64_t{4} << 20);
  EXPECT_LE(log.largest, std::size_t{1} << 20);
  for (int calls = 0; found.next && calls < 100; ++calls)
    found =
        needle.run(log.reader(), *found.next, found.next_line, {.bytes = std::uint64_t{2} << 20});
  EXPECT_THAT(shown(found), ElementsAre("300000@6000000 needle [needle]"));
  EXPECT_EQ(found.size, log.text.size());
  // No time at all: one piece is read, so that calls come to an end.
  found = needle.run(log.reader(), 0, 0, {.time = std::chrono::milliseconds(0)});
  EXPECT_GT(found.next.value_or(0), 0U);
}

TEST(LogSearch, ShowsAPartOfALongLine) {
  TestLog log;
  log.text = "first\n" + std::string((3 << 20) + 1000, 'a') + " needle " +
             std::string(3 << 20, 'b') + "\nneedle\n";
  const LogMatches found = LogSearch("needle", {}).run(log.reader(), 0, 0, {});
  ASSERT_EQ(found.matches.size(), 2U);
  const LogMatch& match = found.matches[0];
  EXPECT_EQ(match.line, 1U);
  EXPECT_EQ(match.offset, 6U);
  EXPECT_LE(match.text.size(), 500U);
  EXPECT_EQ(match.text.substr(match.start, match.length), "needle");
  EXPECT_GT(match.start, 100U);
  EXPECT_EQ(found.matches[1].line, 2U);
  EXPECT_EQ(found.matches[1].text, "needle");
}

TEST(LogSearch, CountsCharactersAndReplacesWhatIsNoUtf8) {
  TestLog log{.text = "\u20ac\u20ac \xff\xfe needle \xe2\x82 \u00e9\n"};
  const LogMatches found = LogSearch("needle", {}).run(log.reader(), 0, 0, {});
  ASSERT_EQ(found.matches.size(), 1U);
  EXPECT_EQ(found.matches[0].text, "\u20ac\u20ac \ufffd\ufffd needle \ufffd\ufffd \u00e9");
  EXPECT_EQ(found.matches[0].start, 6U);
  EXPECT_EQ(found.matches[0].length, 6U);
  // Cut between characters.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "\u20ac";
  log.text = many + "needle" + many + "\n";
  const LogMatch cut = LogSearch("needle", {}).run(log.reader(), 0, 0, {}).matches.at(0);
  EXPECT_THAT(cut.text, testing::Not(testing::HasSubstr("\ufffd")));
  EXPECT_LE(cut.text.size(), 500U);
}

TEST(LogSearch, ValidUtf8KeepsCharactersAndNothingElse) {
  EXPECT_EQ(valid_utf8("a\u00e9\u20ac\U0001F600"), "a\u00e9\u20ac\U0001F600");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "\ufffd\ufffd");                      // longer than need be
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");            // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");  // past the last one
  EXPECT_EQ(valid_utf8("\xf0\x9f\x98"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(valid_utf8(""), "");
}

TEST(WeightsLine, IsTheLastOfALog) {
  TestLog log{.text = "weights 0000000000\nepoch 2\nweights 1a2b3c4d5e\naccuracy 0.9\n"};
  EXPECT_EQ(weights_in_log(log.reader()), "1a2b3c4d5e");
  log.text = "the weights 1a2b3c4d5e\nweights are good\nweights \n";
  EXPECT_EQ(weights_in_log(log.reader()), "");
  log.text = "";
  EXPECT_EQ(weights_in_log(log.reader()), "");
}

}  // namespace
}  // namespace cohort::service
