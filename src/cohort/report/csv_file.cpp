#include "cohort/report/csv_file.h"

#include <utility>

namespace cohort::report {

std::string format_csv(const CsvRow& row) {
  std::string line;
  for (const auto& field : row) {
    if (&field != &row.front()) line += ',';
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
      line += field;
      continue;
    }
    line += '"';
    for (char c : field) {
      if (c == '"') line += '"';
      line += c;
    }
    line += '"';
  }
  return line + '\n';
}

std::vector<CsvRow> parse_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string field;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool next_is_quote = i + 1 < text.size() && text[i + 1] == '"';
    if (quoted && c == '"' && next_is_quote) {
      field += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      field += c;
    } else if (c == ',') {
      row.push_back(std::exchange(field, {}));
    } else if (c == '\n') {
      row.push_back(std::exchange(field, {}));
      rows.push_back(std::exchange(row, {}));
    } else if (c != '\r') {
      field += c;
    }
  }
  return rows;
}

}  // namespace cohort::report
