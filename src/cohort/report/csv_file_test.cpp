#include "cohort/report/csv_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::report {
namespace {

using ::testing::ElementsAre;

TEST(Csv, FieldsAreQuotedOnlyWhereNeeded) {
  EXPECT_EQ(format_csv({"a", "b c", "", "1.5"}), "a,b c,,1.5\n");
  EXPECT_EQ(format_csv({"a,b", "say \"hi\"", "two\nlines"}),
            "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\"\n");
}

TEST(Csv, WhatWasWrittenIsReadBack) {
  std::vector<CsvRow> rows{{"step", "note"}, {"1", "a,\"b\"\r\nc"}, {"2", ""}};
  std::string text;
  for (const auto& row : rows) text += format_csv(row);
  EXPECT_EQ(parse_csv(text), rows);
}

TEST(Csv, WindowsLineEndsAreRead) {
  EXPECT_THAT(parse_csv("a,b\r\n1,2\r\n"), ElementsAre(CsvRow{"a", "b"}, CsvRow{"1", "2"}));
}

TEST(Csv, HalfALineAtTheEndIsDropped) {
  EXPECT_THAT(parse_csv("a,b\n1,2\n3"), ElementsAre(CsvRow{"a", "b"}, CsvRow{"1", "2"}));
  EXPECT_THAT(parse_csv("a\n\"never ends\n"), ElementsAre(CsvRow{"a"}));
  EXPECT_TRUE(parse_csv("").empty());
}

}  // namespace
}  // namespace cohort::report
