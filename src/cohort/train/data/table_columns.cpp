#include "cohort/train/data/table_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/train/data/csv_reader.h"

namespace cohort::train {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Fills one column, row by row.
class ColumnReader {
 public:
  ColumnReader(Column column, std::size_t place) : place_(place) {
    values_.column = std::move(column);
    const Column& own = values_.column;
    is_open_ = own.type == ColumnType::category && own.words.empty();
    for (const std::string& word : own.words)
      if (!numbers_.emplace(word, static_cast<std::int64_t>(numbers_.size())).second)
        throw InvalidInput(fmt::format("column '{}' has the word '{}' twice", own.name, word));
  }

  std::size_t place() const { return place_; }
  const Column& column() const { return values_.column; }

  void add(const CsvReader& csv, const std::string& field) {
    const std::string_view text = trim(field);
    switch (column().type) {
      case ColumnType::number:
        return add_number(csv, text);
      case ColumnType::integer:
        if (const auto value = parse_whole<std::int64_t>(text))
          return values_.integers.push_back(*value);
        csv.refuse(place_, column().name,
                   fmt::format("'{}' is no whole number", escape_controls(text)));
      case ColumnType::category:
        return add_word(csv, std::string(text));
    }
  }

  void add_fill() {
    if (column().type == ColumnType::number)
      values_.numbers.push_back(static_cast<float>(column().fill));
    else
      values_.integers.push_back(is_open_ ? kFilled : static_cast<std::int64_t>(column().fill));
  }

  // Words that were found get their numbers in sorted order, whatever row they were met in.
  ColumnValues finish() {
    if (is_open_) {
      auto& words = values_.column.words;
      for (const auto& [word, number] : numbers_) words.push_back(word);
      std::sort(words.begin(), words.end());
      std::vector<std::int64_t> sorted(words.size());
      for (std::size_t i = 0; i < words.size(); ++i)
        sorted[static_cast<std::size_t>(numbers_.at(words[i]))] = static_cast<std::int64_t>(i);
      for (std::int64_t& value : values_.integers)
        value = value == kFilled ? static_cast<std::int64_t>(column().fill)
                                 : sorted[static_cast<std::size_t>(value)];
    }
    return std::move(values_);
  }

 private:
  static constexpr std::int64_t kFilled = INT64_MIN;

  void add_number(const CsvReader& csv, std::string_view text) {
    const auto value = parse_whole<double>(text);
    if (!value || !std::isfinite(*value) || !std::isfinite(static_cast<float>(*value)))
      csv.refuse(place_, column().name,
                 fmt::format("'{}' is no finite number", escape_controls(text)));
    values_.numbers.push_back(static_cast<float>(*value));
  }

  void add_word(const CsvReader& csv, std::string word) {
    auto found = numbers_.find(word);
    if (found == numbers_.end()) {
      if (!is_open_)
        csv.refuse(place_, column().name,
                   fmt::format("'{}' is not one of the column's {} words", escape_controls(word),
                               numbers_.size()));
      const auto number = static_cast<std::int64_t>(numbers_.size());
      found = numbers_.emplace(std::move(word), number).first;
    }
    values_.integers.push_back(found->second);
  }

  std::size_t place_;
  ColumnValues values_;
  bool is_open_ = false;  // takes any word
  std::unordered_map<std::string, std::int64_t> numbers_;
};

std::vector<ColumnReader> find_columns(const CsvReader& csv,
                                       const std::vector<CsvReader::Field>& header,
                                       const TableOptions& options) {
  std::vector<std::string> names;
  for (const CsvReader::Field& field : header) names.emplace_back(trim(field.text));
  std::vector<ColumnReader> columns;
  for (const Column& column : options.columns) {
    const auto found = std::find(names.begin(), names.end(), column.name);
    if (found == names.end()) {
      const std::string near = nearest(column.name, names);
      csv.refuse_row(fmt::format("no column '{}'{}; there are: {}", column.name,
                                 near.empty() ? "" : fmt::format(" (is '{}' meant?)", near),
                                 escape_controls(join(names, ", "))));
    }
    if (std::find(found + 1, names.end(), column.name) != names.end())
      csv.refuse_row(fmt::format("two columns are called '{}'", column.name));
    columns.emplace_back(column, static_cast<std::size_t>(found - names.begin()));
  }
  return columns;
}

bool is_missing(const CsvReader::Field& field, const TableOptions& options) {
  return !field.quoted && std::find(options.missing_words.begin(), options.missing_words.end(),
                                    trim(field.text)) != options.missing_words.end();
}

void add_row(const CsvReader& csv, const std::vector<CsvReader::Field>& row,
             const TableOptions& options, std::vector<ColumnReader>& columns) {
  std::vector<char> missing(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i].column();
    missing[i] = is_missing(row[columns[i].place()], options);
    if (!missing[i]) continue;
    if (column.missing == MissingValue::drop_row) return;
    if (column.missing == MissingValue::refuse)
      csv.refuse(columns[i].place(), column.name,
                 "there is no value; set the column's missing to fill or drop_row");
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (missing[i])
      columns[i].add_fill();
    else
      columns[i].add(csv, row[columns[i].place()].text);
  }
}

}  // namespace

std::vector<ColumnValues> read_table(const std::filesystem::path& path,
                                     const TableOptions& options) {
  if (options.columns.empty()) throw InvalidInput("a table without columns was asked for");
  CsvReader csv({.path = path, .advice = "Mend the file, or the table's options"},
                options.separator);
  const auto* header = csv.next();
  if (header == nullptr) csv.refuse_row("the file is empty; a header with names was expected");
  const std::size_t width = header->size();
  std::vector<ColumnReader> columns = find_columns(csv, *header, options);
  while (const auto* row = csv.next()) {
    if (row->size() != width)
      csv.refuse_row(fmt::format("{} fields, the header has {}", row->size(), width));
    add_row(csv, *row, options, columns);
  }
  std::vector<ColumnValues> values;
  for (ColumnReader& column : columns) values.push_back(column.finish());
  return values;
}

}  // namespace cohort::train
