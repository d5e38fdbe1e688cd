#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/engine/attempt_history.h"
#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/time_text.h"

// Why a job failed and what happened when, from what its launchers wrote down.
namespace cohort::service {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using engine::HistoryEntry;

constexpr int kMostEntries = 1000;  // of each source but the launchers'

// "worker/1 on node1 failed ...": the task that a reason begins with, as "worker:1"; "": none.
std::string task_in(const std::string& reason) {
  const std::string word = reason.substr(0, reason.find(' '));
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos || !parse_unsigned(word.substr(slash + 1))) return "";
  return word.substr(0, slash) + ":" + word.substr(slash + 1);
}

Json failure_json(const JobRow& job, const std::optional<engine::FailureReport>& found) {
  const engine::FailureReport report =
      found.value_or(engine::FailureReport{.task = task_in(job.reason), .summary = job.reason});
  return {{"task", report.task},
          {"host", report.host},
          {"how", report.how},
          {"summary", report.summary.empty() ? job.reason : report.summary},
          {"lines", report.lines},
          {"collateral", report.collateral},
          {"memory", report.memory},
          {"advice", report.advice},
          {"log", {{"task", report.task}, {"attempt", job.attempt}}}};
}

// One sentence of an event's data; the data may be another version's.
std::string event_sentence(const EventRow& row) {
  const Json parsed = Json::parse(row.data, nullptr, /*allow_exceptions=*/false);
  const Json data = parsed.is_object() ? parsed : Json::object();
  const auto text = [&](const char* key) {
    const auto found = data.find(key);
    return found != data.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    const auto found = data.find(key);
    return found != data.end() && found->is_number_integer() ? found->dump() : std::string("?");
  };
  const auto with = [&](const std::string& sentence, const char* key) {
    const std::string more = text(key);
    return more.empty() ? sentence : sentence + ": " + more;
  };
  if (row.kind == "starting")
    return fmt::format("attempt {} starts, instances: {}", number("attempt"), number("instances"));
  if (row.kind == "started") return fmt::format("attempt {} runs", number("attempt"));
  if (row.kind == "scaled") return fmt::format("instances: {}", number("instances"));
  if (row.kind == "note") return text("text");
  if (row.kind == "lost")
    return with(fmt::format("attempt {} was lost", number("attempt")), "reason");
  if (row.kind == "ended")
    return with(data.contains("exit_code") && data["exit_code"] != 0
                    ? fmt::format("{}, exit code {}", text("state"), number("exit_code"))
                    : text("state"),
                "reason");
  return with(row.kind, "reason");
}

void add_events(const RunStore& store, const JobRow& job, std::vector<HistoryEntry>& entries) {
  for (const EventRow& row : store.events_after(0, job.id, "", kMostEntries))
    entries.push_back({time_text(row.time), row.kind, "", event_sentence(row)});
}

void add_evaluations(const RunStore& store, const JobRow& job, std::vector<HistoryEntry>& entries) {
  for (const char* name : {"validation/loss", "val_loss"}) {
    const auto rows = store.metrics(job.id, name, 0, kMostEntries);
    for (const MetricRow& row : rows)
      entries.push_back({time_text(row.time), "evaluation", "",
                         std::isfinite(row.value)
                             ? fmt::format("step {}: {} {:.4g}", row.step, name, row.value)
                             : fmt::format("step {}: {} is not finite", row.step, name)});
    if (!rows.empty()) return;  // the second is another spelling of the first
  }
}

// A checkpoint of a Cohort program is the file NAME.json beside NAME.safetensors.
void add_checkpoints(const fs::path& folder, std::vector<HistoryEntry>& entries) {
  std::error_code code;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".json" || ++count > kMostEntries) continue;
    const auto written = fs::last_write_time(entry.path(), code);
    if (code) continue;
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::file_clock::to_sys(written).time_since_epoch());
    entries.push_back({time_text(since.count()), "checkpoint", "", entry.path().stem().string()});
  }
}

Json timeline_json(std::vector<HistoryEntry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  Json list = Json::array();
  for (const HistoryEntry& entry : entries)
    list.push_back(
        {{"time", entry.time}, {"kind", entry.kind}, {"task", entry.task}, {"text", entry.text}});
  return {{"entries", std::move(list)}};
}

}  // namespace

HttpResponse get_failure(ApiRequest& request) {
  request.query.require_only({});
  const JobRow job = seen_job(request);
  if (job.state != JobState::failed)
    throw ApiError(404, fmt::format("job {} has not failed: it is {}", job.id, name_of(job.state)));
  return answer_later(
      request.context.background, request.http.wake,
      [folder = engine::AttemptFolder{request.context.folders.attempt(job.id, job.attempt)}] {
        return engine::read_failure(folder);
      },
      [job](const std::optional<engine::FailureReport>& report) {
        return json_response(200, dumped(failure_json(job, report)));
      });
}

HttpResponse get_timeline(ApiRequest& request) {
  request.query.require_only({});
  const JobRow job = seen_job(request);
  std::vector<HistoryEntry> known;
  add_events(request.context.store, job, known);
  add_evaluations(request.context.store, job, known);
  return answer_later(
      request.context.background, request.http.wake,
      [folders = request.context.folders, job, known = std::move(known)] {
        std::vector<HistoryEntry> entries = known;
        add_checkpoints(output_folder(folders, job) / "checkpoints", entries);
        for (int attempt = 1; attempt <= job.attempt; ++attempt)
          for (auto& entry : engine::read_history({folders.attempt(job.id, attempt)}))
            entries.push_back(std::move(entry));
        return entries;
      },
      [](std::vector<HistoryEntry> entries) {
        return json_response(200, dumped(timeline_json(std::move(entries))));
      });
}

}  // namespace cohort::service
