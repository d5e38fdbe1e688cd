#include "cohort/service/metrics/job_metrics.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/report/event_reader.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLogChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;
constexpr std::size_t kMostRows = 10'000;  // of one transaction
constexpr std::size_t kLongestName = 256;
constexpr Millis kSearchInterval = 5000;  // for new event files

constexpr std::string_view kLineEnds = "\r\n";  // a progress bar writes over its line

// How often each definition of a job was found in a task's log: "3,0,17".
std::vector<std::int64_t> parse_counts(const std::string& text, std::size_t definitions) {
  std::vector<std::int64_t> counts;
  for (const auto& part : split(text, ','))
    counts.push_back(static_cast<std::int64_t>(parse_unsigned(part).value_or(0)));
  counts.resize(definitions);
  return counts;
}

std::string format_counts(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto count : counts) parts.push_back(std::to_string(count));
  return join(parts, ",");
}

// How much of the bytes are whole lines.
std::size_t whole_lines(std::string_view bytes, bool is_end) {
  if (is_end) return bytes.size();
  const auto last = bytes.find_last_of(kLineEnds);
  if (last != std::string_view::npos) return last + 1;
  return bytes.size() >= kLongestLine ? bytes.size() : 0;
}

}  // namespace

struct JobMetrics::Pass {
  RunStore& store;
  const JobRow& job;
  const engine::Engine* engine;
  Millis now;
  Found found{};

  MetricRow row(std::string name, std::int64_t step, double value, Millis time) const {
    return {.job = job.id, .name = std::move(name), .step = step, .value = value, .time = time};
  }
};

JobMetrics::JobMetrics(Places places, const jobspec::JobSpec& spec)
    : places_(std::move(places)), definitions_(spec.metric_definitions) {
  for (const auto& problem : definitions_.problems()) log::warning("{}", escape_controls(problem));
}

JobMetrics::Found JobMetrics::collect(RunStore& store, const JobRow& job,
                                      const engine::Engine* engine, Millis now) {
  Pass pass{.store = store, .job = job, .engine = engine, .now = now};
  if (!values_) values_ = store.metric_count(job.id);
  if (engine) collect_logs(pass);
  collect_csv(pass);
  collect_json(pass);
  collect_events(pass);
  collect_progress(pass);
  return pass.found;
}

void JobMetrics::put(Pass& pass, std::vector<MetricRow> rows,
                     const std::vector<CursorRow>& cursors) {
  std::erase_if(rows, [](const MetricRow& row) {
    return row.name.empty() || row.name.size() > kLongestName;
  });
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(kMostValues - *values_, 0));
  const bool is_full = rows.size() > room;
  if (is_full) rows.resize(room);
  pass.store.together([&] {
    pass.store.add_metrics(rows);
    for (const auto& cursor : cursors) pass.store.put_cursor(cursor);
    if (is_full && room > 0)
      pass.store.add_event(pass.job.id, "note",
                           fmt::format(R"({{"text":"The job has {} values of metrics; later ones )"
                                       R"(are not kept."}})",
                                       kMostValues));
  });
  *values_ += static_cast<std::int64_t>(rows.size());
  pass.found.any = true;
}

void JobMetrics::collect_logs(Pass& pass) {
  for (int attempt = pass.job.collected + 1; attempt <= pass.job.attempt; ++attempt)
    for (const auto& task : pass.store.tasks(pass.job.id, attempt)) {
      std::size_t parts = kMostBytes / kLogChunk;
      while (parts > 0 && collect_log_part(pass, attempt, task.name)) --parts;
      if (parts == 0) pass.found.more = true;
    }
}

// Whether there is more of this log.
bool JobMetrics::collect_log_part(Pass& pass, int attempt, const std::string& task) {
  const auto source = fmt::format("log {} {}", attempt, task);
  CursorRow cursor = pass.store.cursor(pass.job.id, source);
  const auto from = static_cast<std::uint64_t>(cursor.position);
  const auto chunk =
      pass.engine->read_log(places_.folders.attempt(pass.job.id, attempt), task, from, kLogChunk);
  std::string_view rest(chunk.bytes);
  rest = rest.substr(0, whole_lines(rest, chunk.end));
  if (rest.empty()) return false;

  CursorRow steps = pass.store.cursor(pass.job.id, "steps " + task);
  auto counts = parse_counts(steps.state, definitions_.definitions().size());
  std::vector<MetricRow> rows;
  if (definitions_.empty()) {
    cursor.position += static_cast<std::int64_t>(rest.size());
    rest = {};
  }
  while (!rest.empty() && rows.size() < kMostRows) {
    const auto end = std::min(rest.find_first_of(kLineEnds), rest.size());
    for (const auto& [definition, value, step] : definitions_.find(rest.substr(0, end))) {
      const auto count = counts[definition]++;
      rows.push_back(pass.row(definitions_.definitions()[definition].name, step.value_or(count),
                              value, pass.now));
    }
    const auto length = std::min(end + 1, rest.size());
    cursor.position += static_cast<std::int64_t>(length);
    rest.remove_prefix(length);
  }
  steps.state = format_counts(counts);
  put(pass, std::move(rows),
      definitions_.empty() ? std::vector{cursor} : std::vector{cursor, steps});
  const bool more = !rest.empty() || chunk.bytes.size() == kLogChunk;
  if (!more)
    pass.store.add_log_mark(pass.job.id, attempt, task, pass.now,
                            static_cast<std::uint64_t>(cursor.position));
  return more;
}

void JobMetrics::collect_csv(Pass& pass) {
  const auto path = places_.output / "metrics.csv";
  std::error_code code;
  const auto time = fs::last_write_time(path, code);
  if (code || time == csv_time_) return;
  CursorRow cursor = pass.store.cursor(pass.job.id, "metrics.csv");
  std::vector<MetricRow> rows;
  for (auto& value : read_metrics_csv(path, cursor.position)) {
    cursor.position = std::max(cursor.position, value.step + 1);
    rows.push_back(pass.row(std::move(value.name), value.step, value.value, pass.now));
  }
  if (!rows.empty()) put(pass, std::move(rows), {cursor});
  csv_time_ = time;
}

void JobMetrics::collect_json(Pass& pass) {
  CursorRow cursor = pass.store.cursor(pass.job.id, "metrics.jsonl");
  auto from_step = static_cast<std::int64_t>(parse_unsigned(cursor.state).value_or(0));
  const auto offset = static_cast<std::uint64_t>(cursor.position);
  auto part = read_metrics_json(places_.output / "metrics.jsonl", offset, from_step, kLogChunk);
  if (part.next == offset) return;
  std::vector<MetricRow> rows;
  for (auto& value : part.values) {
    from_step = std::max(from_step, value.step + 1);
    rows.push_back(pass.row(std::move(value.name), value.step, value.value, pass.now));
  }
  cursor.position = static_cast<std::int64_t>(part.next);
  cursor.state = std::to_string(from_step);
  put(pass, std::move(rows), {cursor});
  pass.found.more = pass.found.more || part.more;
}

void JobMetrics::collect_events(Pass& pass) {
  if (pass.now >= next_search_ || has_ended(pass.job.state)) {
    event_files_ = find_event_files(places_.output);
    next_search_ = pass.now + kSearchInterval;
  }
  for (const auto& file : event_files_) {
    if (damaged_.contains(file)) continue;
    CursorRow cursor = pass.store.cursor(pass.job.id, "events " + file.string());
    const auto part = report::read_events(places_.output / file,
                                          static_cast<std::uint64_t>(cursor.position), kLogChunk);
    if (part.damaged) {
      damaged_.insert(file);
      log::warning("'{}' is damaged at byte {}; its later values are not read",
                   escape_controls((places_.output / file).string()), part.next);
    }
    if (part.next == static_cast<std::uint64_t>(cursor.position)) continue;
    std::vector<MetricRow> rows;
    for (const auto& event : part.scalars) {
      const double time = event.time * 1000;
      rows.push_back(pass.row(event_metric_name(file, event.tag), event.step, event.value,
                              time > 0 && time < 1e15 ? std::llround(time) : pass.now));
    }
    cursor.position = static_cast<std::int64_t>(part.next);
    put(pass, std::move(rows), {cursor});
    pass.found.more = pass.found.more || part.more;
  }
}

void JobMetrics::collect_progress(Pass& pass) {
  if (has_ended(pass.job.state)) return;
  const auto record = report::read_progress_file(places_.output / report::kProgressFile);
  // An earlier attempt's says nothing about this one.
  const auto attempts = pass.store.attempts(pass.job.id);
  if (!record || record->time == progress_time_ || attempts.empty() ||
      record->time < attempts.back().created)
    return;
  std::optional<Millis> eta;
  if (record->seconds_left && *record->seconds_left >= 0 && *record->seconds_left < 1e9)
    eta = record->time + std::llround(*record->seconds_left * 1000);
  pass.store.set_progress(pass.job.id, record->fraction, eta);
  progress_time_ = record->time;
  pass.found.any = true;
}

}  // namespace cohort::service
