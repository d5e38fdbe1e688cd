#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort::train {

enum class ColumnType {
  number,    // a float
  integer,   // an int64
  category,  // a word; its number, from 0, among the column's words
};

enum class MissingValue {
  refuse,    // InvalidInput names line and column
  fill,      // the column's `fill` instead
  drop_row,  // the row is left out
};

struct Column {
  std::string name;  // as the header has it
  ColumnType type = ColumnType::number;
  MissingValue missing = MissingValue::refuse;
  double fill = 0;  // for a category: the number of a word, or -1
  // Of a category: its words in their order, and any other word is refused. Empty: those that the
  // file has, sorted. A test set needs the training set's: {.words = train.words("city")}.
  std::vector<std::string> words = {};
};

struct TableOptions {
  std::vector<Column> columns;  // which are taken; others are passed over
  char separator = ',';
  std::vector<std::string> missing_words = {"", "NA"};  // not quoted, without spaces around
};

// A column's values, one a row: `numbers` of a number column, `integers` of the others.
struct ColumnValues {
  Column column;
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
};

// Reads a CSV file with a header once, from its first row to its last (also gzip's); memory holds
// the chosen columns alone. InvalidInput names line and column of what is no number, of rows that
// are longer or shorter than the header, of missing values, ...
std::vector<ColumnValues> read_table(const std::filesystem::path& path,
                                     const TableOptions& options);

}  // namespace cohort::train
