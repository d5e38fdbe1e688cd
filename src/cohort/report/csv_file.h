#pragma once

#include <string>
#include <string_view>
#include <vector>

// Comma-separated values as RFC 4180 has them, with '\n' at the end of a line (readers take both).
// Pure functions.
namespace cohort::report {

using CsvRow = std::vector<std::string>;

// One line. A field with a comma, a quote or a line end is quoted.
std::string format_csv(const CsvRow& row);

// Every whole line. What follows the last line end is half a line, which a process that was killed
// left, and is dropped; so is a quoted field that never ends.
std::vector<CsvRow> parse_csv(std::string_view text);

}  // namespace cohort::report
