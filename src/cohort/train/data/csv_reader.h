#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/train/data/data_file.h"

namespace cohort::train {

// The rows of a CSV file (RFC 4180: fields may be quoted, and hold separators, line ends and ""
// then), one after another, unpacked where the file is gzip's. Memory holds a row. Confined to one
// thread. InvalidInput names line and column.
class CsvReader {
 public:
  struct Field {
    std::string text;
    bool quoted = false;
  };

  CsvReader(DataFile file, char separator);

  // The next row; nothing at the end. Valid until the next call. Empty lines are passed over.
  const std::vector<Field>* next();
  std::int64_t line() const { return row_line_; }  // where that row begins, from 1

  // "'a.csv' line 3, column 2 ('age'): problem"; `column` from 0.
  [[noreturn]] void refuse(std::size_t column, const std::string& name,
                           const std::string& problem) const;
  [[noreturn]] void refuse_row(const std::string& problem) const;

 private:
  std::optional<char> peek();
  std::optional<char> take();
  void read_field(Field& field);
  void read_quoted(Field& field);
  void skip_byte_order_mark();

  DataReader reader_;
  char separator_;
  std::vector<std::uint8_t> buffer_;
  std::size_t next_ = 0, filled_ = 0;
  std::int64_t line_ = 1, row_line_ = 1;
  std::vector<Field> fields_;
};

}  // namespace cohort::train
