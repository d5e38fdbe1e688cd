#include "cohort/engine/attempt_history.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/process/process_usage.h"
#include "cohort/base/text.h"
#include "cohort/engine/gpu_usage.h"
#include "cohort/engine/launcher_record.h"

namespace cohort::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostMembershipBytes = std::size_t{64} << 20;
constexpr const char* kMembershipLog = "membership.jsonl";

std::string ending_of(const ordered_json& task) {
  if (std::string signal = record_text(task, "signal"); !signal.empty()) return signal;
  const auto code = record_number(task, "exit_code");
  return code ? fmt::format("exit code {}", *code) : record_text(task, "state");
}

// "worker/2.1.0" (task, restarts, returns) or "worker/2" as "worker:2".
std::string member_task(std::string_view member) {
  std::string task(member.substr(0, member.find('.')));
  std::replace(task.begin(), task.end(), '/', ':');
  return task;
}

void add_task(const ordered_json& task, std::vector<HistoryEntry>& entries) {
  const std::string name = record_task(task);
  const int restarts = record_number(task, "restarts").value_or(0);
  if (const std::string started = record_text(task, "started"); !started.empty())
    entries.push_back({started, "task_started", name,
                       restarts > 0 ? fmt::format("started, restart {}", restarts) : "started"});
  if (const std::string ended = record_text(task, "ended"); !ended.empty())
    entries.push_back({ended, "task_ended", name, ending_of(task)});
}

std::optional<HistoryEntry> membership_entry(const ordered_json& line) {
  const std::string event = record_text(line, "event"), reason = record_text(line, "reason");
  const int view = record_number(line, "view").value_or(0);
  HistoryEntry entry{record_text(line, "time"), event, member_task(record_text(line, "member")),
                     reason};
  if (event == "installed") {
    entry.kind = "view";
    const std::size_t members = record_list(line, "members").size();
    entry.text =
        fmt::format("view {}: {}; {} member{}", view, reason, members, members == 1 ? "" : "s");
  } else if (event == "resumed") {
    entry.kind = "trains";
    const auto still = line.find("stood_still_ms");
    entry.text =
        fmt::format("view {} trains from step {}", view, record_number(line, "step").value_or(0));
    if (still != line.end() && still->is_number())
      entry.text += fmt::format(", stood still {:.0f} ms", still->get<double>());
  } else if (event == "proposed" || entry.time.empty() || event.empty()) {
    return std::nullopt;
  }
  return entry;
}

void add_membership(const AttemptFolder& folder, std::vector<HistoryEntry>& entries) {
  const std::filesystem::path path = folder.run() / kMembershipLog;
  if (std::error_code code; !std::filesystem::exists(path, code)) return;
  std::string text;
  try {
    text = read_own_file(path, kMostMembershipBytes);
  } catch (const Error&) {  // no file of this user's, or one that is too long
    return;
  }
  const auto lines = split(text, '\n');
  const std::size_t first = lines.size() > kMostHistory ? lines.size() - kMostHistory : 0;
  for (std::size_t i = first; i < lines.size(); ++i)
    if (const auto json = parse_record(lines[i]); !json.is_null())
      if (auto entry = membership_entry(json)) entries.push_back(*std::move(entry));
}

}  // namespace

std::optional<FailureReport> read_failure(const AttemptFolder& folder) {
  const ordered_json record = read_launcher_record(folder);
  const auto cause = record.find("root_cause");
  if (cause == record.end() || !cause->is_object()) return std::nullopt;
  FailureReport report{.task = record_task(*cause),
                       .host = record_text(*cause, "host"),
                       .how = ending_of(*cause),
                       .summary = record_text(*cause, "summary"),
                       .lines = {},
                       .collateral = {},
                       .memory = record_text(*cause, "memory_evidence"),
                       .advice = record_text(*cause, "advice")};
  for (const auto& line : record_list(*cause, "last_lines"))
    if (line.is_string()) report.lines.push_back(line.get<std::string>());
  for (const auto& task : record_list(record, "tasks"))
    if (const std::string name = record_task(task); name != report.task)
      report.collateral.push_back(fmt::format("{}: {}", name, ending_of(task)));
  return report;
}

std::vector<HistoryEntry> read_history(const AttemptFolder& folder) {
  const ordered_json record = read_launcher_record(folder);
  std::vector<HistoryEntry> entries;
  for (const auto& attempt : record_list(record, "previous_attempts"))
    if (attempt.is_array())
      for (const auto& task : attempt) add_task(task, entries);
  for (const auto& task : record_list(record, "tasks")) add_task(task, entries);
  add_membership(folder, entries);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  if (entries.size() > kMostHistory)
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(kMostHistory));
  return entries;
}

std::map<std::string, TaskUsage> read_usage(const AttemptFolder& folder) {
  const ordered_json record = live_launcher_record(read_launcher_record(folder));
  const std::string here = host_name();
  std::map<std::string, TaskUsage> tasks;
  std::vector<TaskUsage*> running;  // on this machine
  std::vector<pid_t> pids;
  for (const auto& task : record_list(record, "tasks")) {
    TaskUsage& usage = tasks[record_task(task)];
    usage = {.pid = record_number(task, "pid").value_or(0),
             .started = record_text(task, "started"),
             .ended = record_text(task, "ended")};
    if (usage.pid <= 0 || !usage.ended.empty() || record_text(task, "host") != here) continue;
    running.push_back(&usage);
    pids.push_back(usage.pid);
  }
  if (const auto elastic = record.find("elastic"); elastic != record.end() && elastic->is_object())
    for (const auto& member : record_list(*elastic, "members"))
      if (const auto found = tasks.find(member_task(record_text(member, "task")));
          found != tasks.end())
        found->second.step = record_number(member, "step");
  const auto used = usage_of_trees(pids);
  const auto gpus = pids.empty() ? std::map<pid_t, std::uint64_t>() : gpu_memory_by_process();
  for (TaskUsage* task : running)
    if (const auto found = used.find(task->pid); found != used.end()) {
      task->cpu_seconds = found->second.cpu_seconds;
      task->memory = found->second.resident_bytes;
      for (const pid_t process : found->second.processes)
        if (const auto on_gpu = gpus.find(process); on_gpu != gpus.end())
          task->gpu_memory = task->gpu_memory.value_or(0) + on_gpu->second;
    }
  return tasks;
}

}  // namespace cohort::engine
