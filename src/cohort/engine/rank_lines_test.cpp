#include "cohort/engine/rank_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace cohort::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

struct Taken {
  std::map<int, std::string> text;
  std::vector<std::pair<int, int>> ended;  // rank, exit code
  std::string own;
};

// What comes out when `output` is handed over in pieces of so many bytes.
Taken taken(const std::string& output, std::size_t piece) {
  Taken result;
  RankLines lines({.text = [&](int rank, std::string_view text) { result.text[rank] += text; },
                   .report =
                       [&](int rank, const RankReport& report) {
                         if (report.ended) result.ended.emplace_back(rank, report.code);
                       },
                   .own = [&](std::string_view text) { result.own += text; }});
  for (std::size_t at = 0; at < output.size(); at += piece) lines.take(output.substr(at, piece));
  lines.finish();
  return result;
}

std::string tag(int rank) { return "[1," + std::to_string(rank) + "]<stdout>:"; }

TEST(RankLinesTest, PiecesOfLinesComeTogetherByRank) {
  const std::string output = "warning of mpirun [1,x]\n" + tag(1) + encode_text("half") + tag(0) +
                             encode_text("loss=1\n") + tag(10) + encode_text("[1,2]<no\n") +
                             tag(1) + encode_text(" and half\n") + "over\n";
  for (const std::size_t piece : {1, 2, 3, 7, 1000}) {
    const Taken result = taken(output, piece);
    EXPECT_THAT(result.text, ElementsAre(Pair(0, "loss=1\n"), Pair(1, "half and half\n"),
                                         Pair(10, "[1,2]<no\n")));
    EXPECT_EQ(result.own, "warning of mpirun [1,x]\nover\n");
  }
}

TEST(RankLinesTest, WhatLooksLikeATagOrAReportIsText) {
  const std::string said = "[1,0]<stdout>:mine\n\n\x1f{\"ended\":true}\n";
  std::string output = tag(3);
  for (const char c : encode_text(said)) output += c == '\n' ? "\n" + tag(3) : std::string(1, c);
  const Taken result = taken(output, 5);
  EXPECT_THAT(result.text, ElementsAre(Pair(3, "[1,0]<stdout>:mine\n\n?{\"ended\":true}\n")));
  EXPECT_THAT(result.ended, ElementsAre());
}

TEST(RankLinesTest, ALineEndThatMpirunAddsIsLeftOut) {
  EXPECT_THAT(taken(tag(0) + "lo\n" + tag(0) + encode_text("ss\n"), 100).text,
              ElementsAre(Pair(0, "loss\n")));
}

TEST(RankLinesTest, AReportMayBeCutAndFollowHalfALine) {
  const std::string report = encode_report({.ended = true, .code = 3});
  const Taken result = taken(tag(2) + encode_text("bye") + report.substr(0, 9) + tag(0) +
                                 encode_text("on\n") + tag(2) + report.substr(9),
                             100);
  EXPECT_THAT(result.text, ElementsAre(Pair(0, "on\n"), Pair(2, "bye")));
  EXPECT_THAT(result.ended, ElementsAre(Pair(2, 3)));
}

}  // namespace
}  // namespace cohort::engine
