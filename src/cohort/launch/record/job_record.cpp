#include "cohort/launch/record/job_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_choices.h"

namespace cohort::launch {
namespace {

using nlohmann::ordered_json;

constexpr Choice<JobState> kJobStates[] = {
    {"starting", JobState::starting},   {"running", JobState::running},
    {"stopping", JobState::stopping},   {"restarting", JobState::restarting},
    {"succeeded", JobState::succeeded}, {"failed", JobState::failed},
    {"stopped", JobState::stopped}};

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

const char* task_state(const TaskRecord& task) {
  if (task.pid < 0) return "waiting";
  if (!task.exit) return task.suspended_by ? "suspended" : "running";
  return task.exit->success() ? "succeeded" : task.stopped_by_launcher ? "stopped" : "failed";
}

ordered_json to_json(const LastWord& word) {
  if (word.kind == LastWord::Kind::none) return {};
  return {{"kind", to_string(word.kind)},
          {"peer", text_or_null(word.peer)},
          {"during", text_or_null(word.during)},
          {"message", text_or_null(word.message)}};
}

ordered_json to_json(const TaskRecord& task) {
  ordered_json json;
  json["type"] = cluster::to_string(task.id.type);
  json["index"] = task.id.index;
  json["host"] = task.host;
  json["pid"] = task.pid < 0 ? ordered_json() : ordered_json(task.pid);
  json["attempt"] = task.attempt;
  json["restarts"] = task.restarts;
  json["state"] = task_state(task);
  json["started"] = text_or_null(task.started);
  json["ended"] = text_or_null(task.ended);
  bool exited = task.exit.has_value();
  json["exit_code"] = exited ? ordered_json(task.exit->shell_code()) : ordered_json();
  json["signal"] =
      exited && task.exit->signal ? ordered_json(signal_name(task.exit->signal)) : ordered_json();
  json["peak_memory_bytes"] = task.peak_memory_kib * 1024;
  json["log"] = task.log.string();
  json["last_word"] = to_json(task.last_word);
  return json;
}

ordered_json to_json(const std::vector<TaskRecord>& tasks) {
  ordered_json list = ordered_json::array();
  for (const auto& task : tasks) list.push_back(to_json(task));
  return list;
}

ordered_json cause_to_json(const TaskRecord& cause) {
  ordered_json json = to_json(cause);
  json["summary"] = summary_line(cause);
  json["memory_evidence"] = text_or_null(cause.memory_evidence);
  json["last_lines"] = cause.last_lines;
  json["advice"] = advice(cause);
  return json;
}

ordered_json to_json(const ElasticRecord::Member& member) {
  ordered_json json{{"id", member.id},
                    {"task", member.task},
                    {"host", member.host},
                    {"pid", member.pid},
                    {"in_view", member.in_view}};
  if (member.progress) {
    json["stage"] = member.progress->stage;
    json["step"] = member.progress->step;
    json["samples_per_second"] = member.progress->rate;
    json["heard_ms_ago"] = member.progress->heard_ms_ago;
  }
  return json;
}

ordered_json to_json(const ElasticRecord::Change& change) {
  ordered_json json{{"time", change.time}, {"view", change.view}, {"reason", change.reason}};
  if (change.cost) {
    json["step"] = change.cost->step;
    json["stood_still_ms"] = change.cost->stood_still_ms;
    json["redone"] = change.cost->redone;
  }
  return json;
}

ordered_json to_json(const ElasticRecord& elastic) {
  ordered_json json{{"least", elastic.least},
                    {"most", elastic.most},
                    {"wanted", elastic.wanted},
                    {"phase", elastic.phase},
                    {"view", elastic.view}};
  json["members"] = ordered_json::array();
  for (const auto& member : elastic.members) json["members"].push_back(to_json(member));
  json["last_change"] = elastic.last_change ? to_json(*elastic.last_change) : ordered_json();
  return json;
}

}  // namespace

std::string to_json(const JobRecord& record) {
  ordered_json json;
  json["job"] = record.job;
  json["state"] = word_for(kJobStates, record.state);
  json["command"] = record.command;
  json["strategy"] = text_or_null(record.strategy);
  json["success_policy"] = word_for(kSuccessPolicies, record.success);
  json["launcher_pid"] = record.launcher_pid;
  json["folder"] = text_or_null(record.folder.string());
  json["control"] = text_or_null(record.control.string());
  json["started"] = text_or_null(record.started);
  json["ended"] = text_or_null(record.ended);
  json["attempt"] = record.attempt;
  json["max_restarts"] = record.max_restarts;
  json["task_restarts"] = record.task_restarts;
  json["exit_code"] = record.exit_code ? ordered_json(*record.exit_code) : ordered_json();
  json["tasks"] = to_json(record.tasks);
  json["previous_attempts"] = ordered_json::array();
  for (const auto& tasks : record.previous_attempts)
    json["previous_attempts"].push_back(to_json(tasks));
  json["elastic"] = record.elastic ? to_json(*record.elastic) : ordered_json();
  json["failure"] = text_or_null(record.failure);
  json["root_cause"] = record.root_cause ? cause_to_json(*record.root_cause) : ordered_json();
  // Last lines and arguments may hold any bytes; JSON must be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

EarlierJob read_earlier_job(const std::filesystem::path& output) {
  const std::filesystem::path path = output / OutputFolder::kRecord;
  const auto refuse = [&](const std::string& what) {
    throw InvalidInput(fmt::format("'{}' {}", path.string(), what),
                       {.advice = "Name the output folder of a job that was begun."});
  };
  if (!std::filesystem::exists(path)) refuse("does not exist");
  const auto json = nlohmann::json::parse(read_own_file(path, OutputFolder::kMostRecordBytes),
                                          nullptr, /*allow_exceptions=*/false);
  EarlierJob earlier;
  try {
    earlier = {.job = json.at("job"), .attempt = json.at("attempt")};
  } catch (const nlohmann::json::exception&) {
    refuse("is not the record of a job");
  }
  return earlier;
}

OutputFolder::OutputFolder(std::filesystem::path path, Earlier earlier) : path_(std::move(path)) {
  constexpr const char* kAdvice = "Give a folder that you may write to with --output DIR.";
  try {
    make_own_folder(path_);
  } catch (const SystemError& error) {
    throw InvalidInput(
        fmt::format("cannot use the output folder '{}': {}", path_.string(), error.message()),
        {.advice = kAdvice});
  }
  path_ = std::filesystem::absolute(path_);
  if (::access(path_.c_str(), W_OK | X_OK) != 0)
    throw InvalidInput(fmt::format("cannot write to the output folder '{}': {}", path_.string(),
                                   std::generic_category().message(errno)),
                       {.advice = kAdvice});
  auto lock = lock_folder(path_);
  if (!lock)
    throw InvalidInput(
        fmt::format("another job is writing into the output folder '{}'", path_.string()),
        {.advice = "Wait for it, or give another folder with --output DIR."});
  lock_ = std::move(*lock);
  if (earlier == Earlier::aside) move_earlier_job_aside();
  try {
    make_own_folder(logs());
  } catch (const SystemError& error) {
    throw InvalidInput(
        fmt::format("cannot use the log folder '{}': {}", logs().string(), error.message()),
        {.advice = kAdvice});
  }
}

void OutputFolder::move_earlier_job_aside() {
  if (!std::filesystem::exists(record())) return;
  auto earlier = nlohmann::json::parse(read_own_file(record(), kMostRecordBytes), nullptr,
                                       /*allow_exceptions=*/false);
  std::string id;
  if (earlier.is_object() && earlier.contains("job") && earlier["job"].is_string())
    id = earlier["job"];
  if (id.empty() || id.find('/') != std::string::npos) id = fmt::format("earlier-{}", ::getpid());
  std::error_code code;
  std::filesystem::rename(record(), path_ / fmt::format("job-{}.json", id), code);
  if (!code && std::filesystem::exists(logs()))
    std::filesystem::rename(logs(), path_ / fmt::format("logs-{}", id), code);
  for (const char* name : {"membership.jsonl", "ledger"})
    if (!code && std::filesystem::exists(path_ / name)) {
      const std::filesystem::path file(name);
      std::filesystem::rename(
          path_ / file,
          path_ / fmt::format("{}-{}{}", file.stem().string(), id, file.extension().string()),
          code);
    }
  if (code)
    throw InvalidInput(fmt::format("cannot move the earlier job's record aside in '{}': {}",
                                   path_.string(), code.message()),
                       {.advice = "Give another folder with --output DIR."});
}

}  // namespace cohort::launch
