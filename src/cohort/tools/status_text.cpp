#include "cohort/tools/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

using nlohmann::ordered_json;
using Row = std::vector<std::string>;

constexpr auto kReplace = ordered_json::error_handler_t::replace;

std::string shown_text(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "-";
  return escape_controls(found->is_string() ? found->get<std::string>()
                                            : found->dump(-1, ' ', false, kReplace));
}

double number_of(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

bool is_true(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && *found == true;
}

ordered_json list_of(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : ordered_json::array();
}

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string task_table(const ordered_json& record) {
  std::vector<Row> rows = {{"task", "host", "pid", "state", "restarts"}};
  for (const auto& task : list_of(record, "tasks"))
    rows.push_back({fmt::format("{}/{}", shown_text(task, "type"), shown_text(task, "index")),
                    shown_text(task, "host"), shown_text(task, "pid"), shown_text(task, "state"),
                    shown_text(task, "restarts")});
  return table(rows);
}

std::string member_table(const ordered_json& elastic) {
  std::vector<Row> rows = {
      {"worker", "host", "pid", "state", "stage", "step", "samples/s", "heard ms ago"}};
  for (const auto& member : list_of(elastic, "members")) {
    const bool is_live = member.contains("step");
    rows.push_back({shown_text(member, "task"), shown_text(member, "host"),
                    shown_text(member, "pid"), is_true(member, "in_view") ? "member" : "waits",
                    shown_text(member, "stage"), shown_text(member, "step"),
                    is_live ? fmt::format("{:.1f}", number_of(member, "samples_per_second")) : "-",
                    is_live ? fmt::format("{:.0f}", number_of(member, "heard_ms_ago")) : "-"});
  }
  return rows.size() == 1 ? "  no members yet\n" : table(rows);
}

std::string last_change(const ordered_json& change) {
  if (!change.is_object()) return "";
  std::string text = fmt::format("  last change: view {} at {}: {}", shown_text(change, "view"),
                                 shown_text(change, "time"), shown_text(change, "reason"));
  if (change.contains("stood_still_ms"))
    text += fmt::format("; stood still {:.0f} ms{}", number_of(change, "stood_still_ms"),
                        is_true(change, "redone")
                            ? fmt::format(", step {} was done again", shown_text(change, "step"))
                            : "");
  return text + "\n";
}

std::string elastic_text(const ordered_json& elastic) {
  double step = 0;
  double rate = 0;
  int members = 0;
  bool is_live = false;
  for (const auto& member : list_of(elastic, "members")) {
    if (!is_true(member, "in_view")) continue;
    ++members;
    is_live = is_live || member.contains("step");
    step = std::max(step, number_of(member, "step"));
    rate += number_of(member, "samples_per_second");
  }
  std::string text = fmt::format("  view {} ({}), {} of {} wanted workers ({} to {} possible)\n",
                                 shown_text(elastic, "view"), shown_text(elastic, "phase"), members,
                                 shown_text(elastic, "wanted"), shown_text(elastic, "least"),
                                 shown_text(elastic, "most"));
  if (is_live) text += fmt::format("  step {:.0f}, {:.1f} samples/s in all\n", step, rate);
  if (const auto change = elastic.find("last_change"); change != elastic.end())
    text += last_change(*change);
  return text + member_table(elastic);
}

}  // namespace

std::string status_text(const KnownJob& job) {
  const ordered_json& record = job.record;
  std::string text =
      fmt::format("job {}: {}", shown_text(record, "job"), shown_text(record, "state"));
  const bool has_ended = shown_text(record, "ended") != "-";
  if (has_ended)
    text += fmt::format(", exit code {}, at {}", shown_text(record, "exit_code"),
                        shown_text(record, "ended"));
  else if (!job.launcher_answers)
    text += job.trouble.empty()
                ? fmt::format("; but its launcher (pid {}) is gone, so this is what it last wrote",
                              shown_text(record, "launcher_pid"))
                : fmt::format(
                      "; but its launcher (pid {}) does not answer ({}), so this is what it "
                      "last wrote",
                      shown_text(record, "launcher_pid"), escape_controls(job.trouble));
  if (job.left_processes > 0)
    text +=
        fmt::format("\n  {} of its processes still run; cohort resume ends them before it goes on",
                    job.left_processes);
  text += fmt::format("\n  started {}, attempt {}\n", shown_text(record, "started"),
                      shown_text(record, "attempt"));
  if (shown_text(record, "failure") != "-")
    text += fmt::format("  failure: {}\n", shown_text(record, "failure"));
  if (const auto cause = record.find("root_cause"); cause != record.end() && cause->is_object())
    text += fmt::format("  root cause: {}\n", shown_text(*cause, "summary"));
  const auto elastic = record.find("elastic");
  const bool is_elastic = elastic != record.end() && elastic->is_object();
  if (is_elastic) text += elastic_text(*elastic);
  if (!is_elastic || has_ended) text += task_table(record);
  return text;
}

}  // namespace cohort::tools
