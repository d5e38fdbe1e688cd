#include "cohort/train/data/table_columns.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/csv_reader.h"
#include "cohort/train/data/test_folder_test.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TableTest : public DataTest {
 protected:
  std::filesystem::path put_csv(const std::string& text) const {
    write_file_atomically(folder_ / "a.csv", text);
    return folder_ / "a.csv";
  }
  std::vector<std::vector<std::string>> rows(const std::string& text, char separator = ',') const {
    CsvReader csv({.path = put_csv(text), .advice = {}}, separator);
    std::vector<std::vector<std::string>> all;
    while (const auto* row = csv.next()) {
      all.emplace_back();
      for (const CsvReader::Field& field : *row) all.back().push_back(field.text);
    }
    return all;
  }
  std::string complaint(const std::string& text, const TableOptions& options) const {
    return message_of<InvalidInput>([&] { read_table(put_csv(text), options); });
  }
};

TEST_F(TableTest, FieldsMayBeQuoted) {
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(rows("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows("\"a,b\",\"say \"\"hi\"\"\"\r\n\"two\nlines\",\"\"\r\n"),
            (Rows{{"a,b", "say \"hi\""}, {"two\nlines", ""}}));
  EXPECT_EQ(rows("\xef\xbb\xbfx;y\n;\n\n1;2", ';'), (Rows{{"x", "y"}, {"", ""}, {"1", "2"}}));
  EXPECT_EQ(rows(""), Rows{});
  EXPECT_EQ(rows("a,\n,"), (Rows{{"a", ""}, {"", ""}}));
  EXPECT_EQ(rows("a\rb,c\r"), (Rows{{"a\rb", "c"}}));
}

TEST_F(TableTest, ALongFileCrossesTheBuffer) {
  std::string text = "n,word\n";
  for (int i = 0; i < 60'000; ++i) text += fmt::format("{},\"w{}\"\n", i, i % 7);
  const auto values =
      read_table(put_csv(text), {.columns = {{.name = "n", .type = ColumnType::integer},
                                             {.name = "word", .type = ColumnType::category}}});
  ASSERT_EQ(values[0].integers.size(), 60'000u);
  EXPECT_EQ(values[0].integers.back(), 59'999);
  EXPECT_EQ(values[1].integers[13], 13 % 7);
  EXPECT_EQ(values[1].column.words.size(), 7u);
}

TEST_F(TableTest, ColumnsAreTakenByName) {
  const auto values =
      read_table(put_csv("city,age,sold,rest\nRome, 3.5 ,1,x\n\"Bonn\",+2e1,-4,\nRome,.5,7,y\n"),
                 {.columns = {{.name = "age"},
                              {.name = "city", .type = ColumnType::category},
                              {.name = "sold", .type = ColumnType::integer}}});
  EXPECT_THAT(values[0].numbers, ElementsAre(3.5f, 20.f, 0.5f));
  EXPECT_THAT(values[1].integers, ElementsAre(1, 0, 1));  // words are sorted
  EXPECT_THAT(values[1].column.words, ElementsAre("Bonn", "Rome"));
  EXPECT_THAT(values[2].integers, ElementsAre(1, -4, 7));
}

TEST_F(TableTest, PackedFilesAreUnpacked) {
  const std::string text = "a\n1\n2\n";
  write("a.csv.gz", gzip(Bytes(text.begin(), text.end())));
  EXPECT_THAT(read_table(folder_ / "a.csv.gz", {.columns = {{.name = "a"}}})[0].numbers,
              ElementsAre(1.f, 2.f));
}

TEST_F(TableTest, MissingValuesAreRefusedFilledOrDropTheRow) {
  const std::string text = "a,b,c\n1,x,5\n,,6\n3,NA,\n4,y,8\n";
  EXPECT_THAT(complaint(text, {.columns = {{.name = "a"}}}),
              HasSubstr("a.csv': line 3, column 1 ('a'): there is no value"));
  const auto filled = read_table(
      put_csv(text), {.columns = {{.name = "a", .missing = MissingValue::fill, .fill = -1},
                                  {.name = "b",
                                   .type = ColumnType::category,
                                   .missing = MissingValue::fill,
                                   .fill = -1}}});
  EXPECT_THAT(filled[0].numbers, ElementsAre(1, -1, 3, 4));
  EXPECT_THAT(filled[1].integers, ElementsAre(0, -1, -1, 1));
  const auto dropped =
      read_table(put_csv(text), {.columns = {{.name = "a", .missing = MissingValue::fill},
                                             {.name = "c", .missing = MissingValue::drop_row}}});
  EXPECT_THAT(dropped[0].numbers, ElementsAre(1, 0, 4));
  EXPECT_THAT(dropped[1].numbers, ElementsAre(5, 6, 8));
  EXPECT_THAT(read_table(put_csv("b\n\"NA\"\n"),
                         {.columns = {{.name = "b", .type = ColumnType::category}}})[0]
                  .column.words,
              ElementsAre("NA"));  // quoted: a word
}

TEST_F(TableTest, WhatCannotBeIsNamedWithLineAndColumn) {
  const TableOptions age{.columns = {{.name = "age"}}};
  EXPECT_THAT(complaint("city,age\n\"a\nb\",3\nRome,abc\n", age),
              HasSubstr("line 4, column 2 ('age'): 'abc' is no finite number"));
  EXPECT_THAT(complaint("age\ninf\n", age), HasSubstr("'inf' is no finite number"));
  EXPECT_THAT(complaint("age\n1e999\n", age), HasSubstr("'1e999' is no finite number"));
  EXPECT_THAT(complaint("age\n1e39\n", age), HasSubstr("'1e39' is no finite number"));
  EXPECT_THAT(complaint("age\n0x10\n", age), HasSubstr("'0x10' is no finite number"));
  EXPECT_THAT(complaint("age,x\n1,2,3\n", age), HasSubstr("line 2: 3 fields, the header has 2"));
  EXPECT_THAT(complaint("age,x\n1\n", age), HasSubstr("line 2: 1 fields, the header has 2"));
  EXPECT_THAT(complaint("aged,x\n", age),
              HasSubstr("line 1: no column 'age' (is 'aged' meant?); there are: aged, x"));
  EXPECT_THAT(complaint("age,age\n", age), HasSubstr("two columns are called 'age'"));
  EXPECT_THAT(complaint("", age), HasSubstr("the file is empty"));
  EXPECT_THAT(complaint("age\n\"1\n2\n", age), HasSubstr("line 2, column 1: a quote that begins"));
  EXPECT_THAT(complaint("age\n\"1\"2\n", age), HasSubstr("text follows a closing quote"));
  EXPECT_THAT(complaint("age\n1.5\n", {.columns = {{.name = "age", .type = ColumnType::integer}}}),
              HasSubstr("'1.5' is no whole number"));
  EXPECT_THAT(
      complaint("b\nx\nz\n",
                {.columns = {{.name = "b", .type = ColumnType::category, .words = {"y", "x"}}}}),
      HasSubstr("line 3, column 1 ('b'): 'z' is not one of the column's 2 words"));
  EXPECT_THROW(read_table(put_csv("a\n"), {}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
