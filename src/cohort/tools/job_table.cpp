#include "cohort/tools/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "cohort/base/text.h"
#include "cohort/report/live_line.h"

namespace cohort::tools {
namespace {

using TableRow = std::vector<std::string>;

constexpr std::size_t kLeastReason = 20;  // columns
constexpr std::size_t kMostName = 24;

std::size_t columns_of(std::string_view text) {  // UTF-8
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns) return text;
  return report::clip_columns(text, static_cast<int>(columns) - 2) + "..";
}

std::string age_text(const std::string& time, WallTime now) {
  const auto then = parse_utc(time);
  if (!then) return "-";
  return duration_text(std::chrono::duration_cast<std::chrono::seconds>(now - *then));
}

std::string progress_text(const sdk::Job& job, WallTime now) {
  if (job.has_ended() || !job.progress) return "-";
  std::string text = fmt::format("{:.0f}%", std::floor(*job.progress * 100));
  if (const auto eta = parse_utc(job.eta); eta && *eta > now)
    text += fmt::format(
        ", {} left", duration_text(std::chrono::duration_cast<std::chrono::seconds>(*eta - now)));
  return text;
}

std::string optional_text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "-";
}

// Columns as wide as their widest text; the last one as it is.
std::string aligned(const std::vector<TableRow>& rows, const std::string& indent) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const TableRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  std::string text;
  for (const TableRow& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - columns_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Cuts the last column so that every line fits.
void fit_last(std::vector<TableRow>& rows, std::size_t columns) {
  std::size_t used = 0;
  for (std::size_t i = 0; i + 1 < rows.front().size(); ++i) {
    std::size_t width = 0;
    for (const TableRow& row : rows) width = std::max(width, columns_of(row[i]));
    used += width + 2;
  }
  const std::size_t left = std::max(columns > used ? columns - used : 0, kLeastReason);
  for (TableRow& row : rows) row.back() = cut(row.back(), left);
}

}  // namespace

std::optional<WallTime> parse_utc(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!rest) return std::nullopt;
  double fraction = 0;
  if (*rest == '.') {
    char* end = nullptr;
    fraction = std::strtod(rest, &end);
    rest = end;
  }
  if (std::string_view(rest) != "Z") return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts)) +
         std::chrono::milliseconds(static_cast<std::int64_t>(fraction * 1000));
}

std::string duration_text(std::chrono::seconds duration) {
  const auto seconds = std::max<std::int64_t>(duration.count(), 0);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 86400) return fmt::format("{}h{}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{}h", seconds / 86400, seconds / 3600 % 24);
}

std::string job_table(const std::vector<sdk::Job>& jobs, WallTime now, int columns) {
  std::vector<TableRow> rows = {{"ID", "NAME", "STATE", "INST", "AGE", "PROGRESS", "REASON"}};
  for (const sdk::Job& job : jobs) {
    const std::string name = escape_controls(job.name);
    rows.push_back({escape_controls(job.id), columns > 0 ? cut(name, kMostName) : name,
                    escape_controls(job.state), std::to_string(job.instances),
                    age_text(job.submitted, now), progress_text(job, now),
                    escape_controls(job.reason)});
  }
  if (columns > 0) fit_last(rows, static_cast<std::size_t>(columns));
  return aligned(rows, "");
}

std::string use_text(const sdk::ServiceInfo& service) {
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  const auto& all = service.machine;
  const auto& free = service.free;
  return fmt::format(
      "in use: {:g} of {:g} cores, {:.1f} of {:.1f} GiB, {} of {} GPUs; {} job{}, {} wait{}",
      all.cores - free.cores, all.cores, gib(all.memory_bytes) - gib(free.memory_bytes),
      gib(all.memory_bytes), all.gpus - free.gpus, all.gpus, service.running,
      service.running == 1 ? " runs" : "s run", service.queued, service.queued == 1 ? "s" : "");
}

std::string job_text(const sdk::Job& job, WallTime now) {
  std::string text = fmt::format("job {} ({}): {}", escape_controls(job.id),
                                 escape_controls(job.name), escape_controls(job.state));
  if (job.has_ended()) text += fmt::format(", exit code {}", optional_text(job.exit_code));
  if (!job.reason.empty()) text += ": " + escape_controls(job.reason);
  text += fmt::format("\n  {}, queue {}, priority {}, engine {}, {} instance{}{}\n",
                      escape_controls(job.user), escape_controls(job.queue), job.priority,
                      escape_controls(job.engine), job.instances, job.instances == 1 ? "" : "s",
                      job.pinned ? ", pinned" : "");
  text += fmt::format("  submitted {} ({} ago)", job.submitted, age_text(job.submitted, now));
  if (!job.started.empty()) text += fmt::format(", started {}", job.started);
  if (!job.ended.empty()) text += fmt::format(", ended {}", job.ended);
  text += "\n";
  if (const auto progress = progress_text(job, now); progress != "-")
    text += fmt::format("  progress {}\n", progress);
  for (const auto& [key, value] : job.tags)
    text += fmt::format("  tag {}={}\n", escape_controls(key), escape_controls(value));
  for (const auto& note : job.notes) text += fmt::format("  note: {}\n", escape_controls(note));
  for (const auto& attempt : job.attempts)
    text += fmt::format("  attempt {}: {}, exit code {}{}{}\n", attempt.number,
                        escape_controls(attempt.state), optional_text(attempt.exit_code),
                        attempt.failure.empty() ? "" : ": ", escape_controls(attempt.failure));
  if (job.tasks.empty()) return text;
  std::vector<TableRow> rows = {{"task", "host", "state", "exit code", "restarts"}};
  for (const auto& task : job.tasks)
    rows.push_back({escape_controls(task.name), escape_controls(task.host),
                    escape_controls(task.state), optional_text(task.exit_code),
                    std::to_string(task.restarts)});
  return text + aligned(rows, "  ");
}

std::string ending_text(const sdk::Job& job) {
  return fmt::format("job {} {}{}{}", escape_controls(job.id), escape_controls(job.state),
                     job.reason.empty() ? "" : ": ", escape_controls(job.reason));
}

}  // namespace cohort::tools
