#include "cohort/report/metrics_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"

namespace cohort::report {
namespace {

constexpr const char* kStep = "step";

std::string to_text(const MetricValue& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view what) {
  throw InvalidInput(fmt::format("'{}' cannot be continued: {}", path.string(), what),
                     {.advice = "Move it away, or choose another folder."});
}

// The header and the rows up to `last` of an existing file; nothing of one that has no whole line.
std::vector<CsvRow> rows_to_keep(const std::filesystem::path& path, std::int64_t last) {
  auto rows = parse_csv(read_file(path));
  if (rows.empty()) return rows;
  if (rows.front().front() != kStep) refuse(path, "its first column is not 'step'");
  auto is_later = [&](const CsvRow& row) {
    const std::string& text = row.front();
    std::int64_t step = 0;
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), step);
    if (code != std::errc() || end != text.data() + text.size())
      refuse(path, fmt::format("'{}' is not a step", text));
    return step > last;
  };
  rows.erase(std::remove_if(rows.begin() + 1, rows.end(), is_later), rows.end());
  return rows;
}

std::string format_table(const std::vector<CsvRow>& rows) {
  std::string text;
  for (const auto& row : rows) text += format_csv(row);
  return text;
}

CsvRow prepare_csv(const std::filesystem::path& path, std::optional<std::int64_t> resume_after) {
  if (!resume_after || !std::filesystem::exists(path)) return {};
  auto rows = rows_to_keep(path, *resume_after);
  write_file_atomically(path, format_table(rows));
  return rows.empty() ? CsvRow{} : rows.front();
}

// Cuts what follows step `last`.
void prepare_json_lines(const std::filesystem::path& path, std::int64_t last) {
  std::string kept;
  std::string text = read_file(path);
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    auto line = std::string_view(text).substr(begin, end + 1 - begin);
    auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains(kStep) || !object[kStep].is_number_integer())
      refuse(path, fmt::format("a line of it is not an object with a step: {}",
                               line.substr(0, std::min<std::size_t>(line.size() - 1, 80))));
    if (object[kStep].get<std::int64_t>() <= last) kept += line;
  }
  write_file_atomically(path, kept);
}

AppendFile::Open how_to_open(const std::optional<std::int64_t>& resume_after) {
  return resume_after ? AppendFile::Open::extend : AppendFile::Open::fresh;
}

}  // namespace

CsvLog::CsvLog(std::filesystem::path path, std::optional<std::int64_t> resume_after)
    : columns_(prepare_csv(path, resume_after)),
      file_(std::move(path), how_to_open(resume_after)) {}

std::size_t CsvLog::column(const std::string& name) {
  return static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), name) -
                                  columns_.begin());
}

void CsvLog::write(const MetricRow& row) {
  CsvRow columns = columns_.empty() ? CsvRow{kStep} : columns_;
  for (const auto& [name, value] : row.values)
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  if (columns != columns_) widen(columns);

  CsvRow fields(columns_.size());
  fields.front() = std::to_string(row.step);
  for (const auto& [name, value] : row.values) fields[column(name)] = to_text(value);
  file_.append(format_csv(fields));
}

void CsvLog::widen(const CsvRow& columns) {
  if (columns_.empty()) {
    file_.append(format_csv(columns));
  } else {
    file_.flush();
    auto rows = parse_csv(read_file(path()));
    rows.front() = columns;
    for (auto& row : rows) row.resize(columns.size());
    write_file_atomically(path(), format_table(rows));
    file_ = AppendFile(path(), AppendFile::Open::extend);
  }
  columns_ = columns;
}

JsonLinesLog::JsonLinesLog(std::filesystem::path path, std::optional<std::int64_t> resume_after)
    : file_([&] {
        if (resume_after && std::filesystem::exists(path)) prepare_json_lines(path, *resume_after);
        return AppendFile(std::move(path), how_to_open(resume_after));
      }()) {}

void JsonLinesLog::write(const MetricRow& row) {
  nlohmann::ordered_json object{{kStep, row.step}};
  for (const auto& [name, value] : row.values)
    std::visit([&, &name = name](const auto& held) { object[name] = held; }, value);
  file_.append(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
               '\n');
}

}  // namespace cohort::report
