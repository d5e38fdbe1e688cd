#include "cohort/launch/output/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cohort::launch {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> split_all(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](const LineSplitter::Line& line) {
    lines.push_back((line.is_redraw ? "~" : "") + std::string(line.text));
  });
  for (const auto& piece : pieces) splitter.feed(piece);
  splitter.finish();
  return lines;
}

TEST(LineSplitter, LinesDoNotDependOnHowTheBytesArrive) {
  auto expected = ElementsAre("one", "", "two", "three");
  EXPECT_THAT(split_all({"one\n\ntwo\nthree"}), expected);
  EXPECT_THAT(split_all({"o", "ne", "\n", "\ntw", "o\nthr", "ee"}), expected);
}

TEST(LineSplitter, WindowsLineEndsAreOneLineEnd) {
  EXPECT_THAT(split_all({"a\r\nb\r", "\nc"}), ElementsAre("a", "b", "c"));
}

TEST(LineSplitter, CarriageReturnsAreRedrawsOfOneLine) {
  EXPECT_THAT(split_all({"\r10%\r20%\r30%\ndone\n"}), ElementsAre("~10%", "~20%", "30%", "done"));
}

TEST(LineSplitter, AHugeLineIsCutAndCounted) {
  std::string seen;
  size_t cut = 0;
  LineSplitter splitter([&](const LineSplitter::Line& line) {
    seen = line.text;
    cut = line.cut_bytes;
  });
  for (int i = 0; i < 10; ++i) splitter.feed(std::string(1'000'000, 'x'));
  splitter.feed("\n");
  EXPECT_EQ(seen.size(), LineSplitter::kMaxLine);
  EXPECT_EQ(seen.size() + cut, 10'000'000u);
}

TEST(LineSplitter, BytesOfAnyValuePass) {
  std::string binary("\0\x01\xff\x7f", 4);
  EXPECT_THAT(split_all({binary + "\n"}), ElementsAre(binary));
}

}  // namespace
}  // namespace cohort::launch
