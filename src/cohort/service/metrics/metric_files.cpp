#include "cohort/service/metrics/metric_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/report/csv_file.h"
#include "cohort/report/file_part.h"
#include "cohort/service/metrics/log_metrics.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCsvBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostStep = 1'000'000'000'000'000;
constexpr int kMostEntries = 10'000;
constexpr int kDeepestFolder = 8;

void add_json_line(std::string_view line, std::int64_t from_step, std::vector<FileValue>& values) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    return;
  if (object["step"] > kMostStep) return;
  const auto step = object["step"].get<std::int64_t>();
  if (step < from_step) return;
  for (const auto& [name, value] : object.items())
    if (value.is_number() && name != "step" && name != "epoch")
      values.push_back({.name = name, .step = step, .value = value.get<double>()});
}

}  // namespace

std::vector<FileValue> read_metrics_csv(const fs::path& path, std::int64_t from_step) {
  const auto rows = report::parse_csv(report::read_file_part(path, 0, kMostCsvBytes).bytes);
  std::vector<FileValue> values;
  if (rows.empty() || rows[0].empty() || rows[0][0] != "step") return values;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto step = parse_number(rows[i][0]);
    if (!step || !(*step >= static_cast<double>(from_step)) ||
        *step > static_cast<double>(kMostStep))
      continue;
    for (std::size_t column = 1; column < std::min(rows[i].size(), rows[0].size()); ++column)
      if (const auto value = parse_number(rows[i][column]); value && rows[0][column] != "epoch")
        values.push_back(
            {.name = rows[0][column], .step = static_cast<std::int64_t>(*step), .value = *value});
  }
  return values;
}

JsonLinesPart read_metrics_json(const fs::path& path, std::uint64_t offset, std::int64_t from_step,
                                std::size_t most_bytes) {
  auto part = report::read_file_part(path, offset, most_bytes);
  if (part.size < offset) part = report::read_file_part(path, offset = 0, most_bytes);
  JsonLinesPart result{.values = {}, .next = offset};
  std::string_view rest = part.bytes;
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
    add_json_line(rest.substr(0, end), from_step, result.values);
    rest.remove_prefix(end + 1);
    result.next += end + 1;
  }
  // A line longer than what is read at once is none of ours.
  if (rest.size() == most_bytes) result.next += rest.size();
  result.more = result.next > offset && offset + part.bytes.size() < part.size;
  return result;
}

std::vector<fs::path> find_event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  int entries = 0;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, code);
       !code && entry != fs::recursive_directory_iterator() && ++entries <= kMostEntries;
       entry.increment(code)) {
    if (entry.depth() >= kDeepestFolder) entry.disable_recursion_pending();
    std::error_code type;
    if (entry->path().filename().string().find("tfevents") != std::string::npos &&
        entry->symlink_status(type).type() == fs::file_type::regular)
      files.push_back(entry->path().lexically_relative(folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string event_metric_name(const fs::path& relative, const std::string& tag) {
  fs::path run = relative.parent_path();
  if (run.empty() || run == "tensorboard") return tag;
  if (*run.begin() == "tensorboard") run = run.lexically_relative("tensorboard");
  return run.generic_string() + "/" + tag;
}

}  // namespace cohort::service
