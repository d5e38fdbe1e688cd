#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/report/append_file.h"
#include "cohort/report/csv_file.h"

// A run's numbers, row by row: as CSV for spreadsheets, as JSON lines for programs. One process
// writes a file. Both are buffered as AppendFile says; a failing write is its SystemError.
//
// Without `resume_after` a file begins anew. With it, an existing file goes on: rows of later
// steps, which the resumed run will write again, and half a row at the end are cut. A file that
// such a log did not write is refused with InvalidInput and left as it is. Thread-compatible.
namespace cohort::report {

using MetricValue = std::variant<bool, std::int64_t, double, std::string>;

struct MetricRow {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, MetricValue>> values;
};

// The column "step", then those of the first row in its order. A row without a column leaves it
// empty; a row with a new one widens the file: the column is appended to every line.
class CsvLog {
 public:
  explicit CsvLog(std::filesystem::path path, std::optional<std::int64_t> resume_after = {});

  void write(const MetricRow& row);
  void flush() { file_.flush(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  std::size_t column(const std::string& name);  // its place; columns_.size() when it is new
  void widen(const CsvRow& columns);

  CsvRow columns_;
  AppendFile file_;
};

// One JSON object a line: {"step": 3, "loss": 0.25, ...}. A number that is not finite is null.
class JsonLinesLog {
 public:
  explicit JsonLinesLog(std::filesystem::path path, std::optional<std::int64_t> resume_after = {});

  void write(const MetricRow& row);
  void flush() { file_.flush(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace cohort::report
