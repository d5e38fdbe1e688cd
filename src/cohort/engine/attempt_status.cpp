#include "cohort/engine/attempt_status.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/engine/attempt_log.h"
#include "cohort/engine/mpi_start.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::chrono::seconds kAnswerTime{2};
constexpr std::size_t kLogEnd = 16 * 1024;

// The launcher's record of the job; null where it has written none, or its folder is gone.
ordered_json read_record(const AttemptFolder& folder) {
  const fs::path path = folder.run() / launch::OutputFolder::kRecord;
  if (std::error_code code; !fs::exists(path, code)) return {};
  try {
    auto record =
        ordered_json::parse(read_own_file(path, launch::OutputFolder::kMostRecordBytes), nullptr,
                            /*allow_exceptions=*/false);
    return record.is_object() ? record : ordered_json();
  } catch (const SystemError&) {  // removed since
    return {};
  }
}

// The record as the launcher has it now; the one on disk where it does not answer.
ordered_json live_record(ordered_json record) {
  const std::string socket = record.value("control", ordered_json()).is_string()
                                 ? record["control"].get<std::string>()
                                 : std::string();
  if (socket.empty()) return record;
  try {
    auto answer = ordered_json::parse(
        launch::ask_launcher(socket, R"({"command": "status"})", Deadline::after(kAnswerTime)),
        nullptr, /*allow_exceptions=*/false);
    if (answer.is_object() && answer.value("ok", false)) return answer.at("status");
  } catch (const Error&) {  // it ends just now, or is busy
  }
  return record;
}

std::string text(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int> number(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

std::vector<TaskStatus> tasks_of(const ordered_json& record) {
  std::vector<TaskStatus> tasks;
  for (const auto& task : record.value("tasks", ordered_json::array()))
    tasks.push_back(
        {.name = fmt::format("{}:{}", text(task, "type"), number(task, "index").value_or(0)),
         .host = text(task, "host"),
         .state = text(task, "state"),
         .exit_code = number(task, "exit_code"),
         .restarts = number(task, "restarts").value_or(0) + number(task, "attempt").value_or(1) - 1,
         .started = text(task, "started"),
         .ended = text(task, "ended")});
  return tasks;
}

std::optional<int> members_of(const ordered_json& record) {
  const auto elastic = record.find("elastic");
  if (elastic == record.end() || !elastic->is_object()) return std::nullopt;
  int members = 0;
  for (const auto& member : elastic->value("members", ordered_json::array()))
    members += member.value("in_view", false) ? 1 : 0;
  return members;
}

AttemptState state_named(const std::string& name) {
  static const std::map<std::string, AttemptState> kStates = {
      {"starting", AttemptState::starting},   {"running", AttemptState::running},
      {"restarting", AttemptState::running},  {"stopping", AttemptState::stopping},
      {"succeeded", AttemptState::succeeded}, {"failed", AttemptState::failed},
      {"stopped", AttemptState::stopped}};
  const auto found = kStates.find(name);
  return found == kStates.end() ? AttemptState::starting : found->second;
}

// What mpirun says of the rank that failed, else what the launcher says of the task.
std::string failure_of(const AttemptFolder& folder, const ordered_json& record) {
  if (std::string said = text(record, "failure"); !said.empty()) return said;
  const auto cause = record.find("root_cause");
  if (cause == record.end() || !cause->is_object()) return "";
  if (std::error_code code; fs::exists(folder.host_file(), code)) {
    const auto size = fs::file_size(text(*cause, "log"), code);
    const std::uint64_t from = code || size < kLogEnd ? 0 : size - kLogEnd;
    const auto log = read_attempt_log(folder, "worker:0", from, kLogEnd, true);
    if (std::string rank = failed_rank(log.bytes); !rank.empty()) return rank;
  }
  return text(*cause, "summary");
}

// What the record says; it holds as long as the launcher lives, and when it says the end.
void take_record(const AttemptFolder& folder, const ordered_json& record, AttemptStatus& status) {
  status.state = state_named(text(record, "state"));
  status.exit_code = number(record, "exit_code");
  status.started = text(record, "started");
  status.ended = text(record, "ended");
  status.tasks = tasks_of(record);
  if (has_ended(status.state))
    status.failure = failure_of(folder, record);
  else
    status.workers = members_of(record);
}

}  // namespace

AttemptStatus attempt_status(const AttemptFolder& folder, bool live) {
  std::error_code code;
  const auto owner = claimed_by(folder);
  if (!owner) return {};
  const bool lives =
      supervisor_lives(folder, *owner);  // before the record is read: it writes that last
  AttemptStatus status{.state = AttemptState::starting};
  ordered_json record = read_record(folder);
  if (lives && live && !record.is_null()) record = live_record(std::move(record));
  if (!record.is_null()) take_record(folder, record, status);
  if (const auto early = read_early_end(folder)) {
    status.state = AttemptState::failed;
    status.failure = early->failure;
    status.ended = early->ended;
  }
  if (has_ended(status.state)) return status;
  const bool stop_asked = fs::exists(folder.stop_mark(), code);
  if (lives)
    status.state = stop_asked ? AttemptState::stopping : status.state;
  else
    status.state = stop_asked ? AttemptState::stopped : AttemptState::lost;
  return status;
}

}  // namespace cohort::engine
