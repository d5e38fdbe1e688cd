#include "cohort/engine/attempt_status.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/engine/attempt_log.h"
#include "cohort/engine/mpi_ranks.h"
#include "cohort/engine/mpi_start.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::chrono::seconds kAnswerTime{2};
constexpr std::size_t kLogEnd = 16 * 1024;
constexpr int kMostNumber = 1'000'000'000;
constexpr int kDeepest = 16;  // a record has 4 levels; one with very many would exhaust the stack

// Null for what is no object, or nested too deeply. The job's own program can write the file, too.
ordered_json parse_object(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  auto json = ordered_json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return nullptr;
  return json;
}

// The launcher's record of the job; null where it has written none, its folder is gone, or what
// lies there is no record.
ordered_json read_record(const AttemptFolder& folder) {
  const fs::path path = folder.run() / launch::OutputFolder::kRecord;
  if (std::error_code code; !fs::exists(path, code)) return nullptr;
  try {
    return parse_object(read_own_file(path, launch::OutputFolder::kMostRecordBytes));
  } catch (const Error&) {  // removed since, or no file of this user's
    return nullptr;
  }
}

std::string text(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The record as the launcher has it now; the one on disk where it does not answer.
ordered_json live_record(ordered_json record) {
  const std::string socket = text(record, "control");
  if (socket.empty()) return record;
  try {
    ordered_json answer = parse_object(
        launch::ask_launcher(socket, R"({"command": "status"})", Deadline::after(kAnswerTime)));
    const auto status = answer.find("status");
    if (status != answer.end() && status->is_object()) return std::move(*status);
  } catch (const Error&) {  // it ends just now, or is busy
  }
  return record;
}

std::optional<int> number(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer() || *found < -kMostNumber ||
      *found > kMostNumber)
    return std::nullopt;
  return found->get<int>();
}

// An array of objects; empty where it is none.
const ordered_json& list(const ordered_json& json, const char* key) {
  static const ordered_json kNone = ordered_json::array();
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : kNone;
}

std::vector<TaskStatus> tasks_of(const ordered_json& record) {
  std::vector<TaskStatus> tasks;
  for (const auto& task : list(record, "tasks"))
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
  for (const auto& member : list(*elastic, "members")) {
    const auto in_view = member.find("in_view");
    members += in_view != member.end() && *in_view == true ? 1 : 0;
  }
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

bool is_mpi_job(const AttemptFolder& folder) {
  std::error_code code;
  return fs::exists(folder.host_file(), code);
}

// Of an MPI job: its ranks, then mpirun.
std::vector<TaskStatus> with_ranks(Ranks ranks, std::vector<TaskStatus> tasks) {
  for (TaskStatus& task : tasks) {
    task.name = kMpirunTask;
    ranks.tasks.push_back(std::move(task));
  }
  return ranks.tasks;
}

// What the rank that failed says, else mpirun of it, else the launcher of the task.
std::string failure_of(const AttemptFolder& folder, const ordered_json& record) {
  if (std::string said = text(record, "failure"); !said.empty()) return said;
  const auto cause = record.find("root_cause");
  if (cause == record.end() || !cause->is_object()) return "";
  if (is_mpi_job(folder)) {
    if (std::string rank = read_ranks(folder).failure; !rank.empty()) return rank;
    std::error_code code;
    const auto size = fs::file_size(text(*cause, "log"), code);
    const std::uint64_t from = code || size < kLogEnd ? 0 : size - kLogEnd;
    const auto log = read_attempt_log(folder, kMpirunTask, from, kLogEnd, true);
    if (std::string rank = killed_rank(log.bytes); !rank.empty()) return rank;
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
  if (is_mpi_job(folder)) status.tasks = with_ranks(read_ranks(folder), std::move(status.tasks));
  if (has_ended(status.state))
    status.failure = failure_of(folder, record);
  else
    status.workers = members_of(record);
}

// What record and early end say.
AttemptStatus written_status(const AttemptFolder& folder, bool live) {
  AttemptStatus status{.state = AttemptState::starting};
  ordered_json record = read_record(folder);
  if (live && !record.is_null()) record = live_record(std::move(record));
  if (!record.is_null()) take_record(folder, record, status);
  if (const auto early = read_early_end(folder)) {
    status.state = AttemptState::failed;
    status.failure = early->failure;
    status.ended = early->ended;
  }
  return status;
}

}  // namespace

std::string control_socket(const AttemptFolder& folder) {
  return text(read_record(folder), "control");
}

AttemptStatus recorded_status(const AttemptFolder& folder) {
  return claimed_by(folder) ? written_status(folder, /*live=*/false) : AttemptStatus{};
}

AttemptStatus attempt_status(const AttemptFolder& folder, bool live) {
  std::error_code code;
  const auto owner = claimed_by(folder);
  if (!owner) return {};
  const bool lives =
      supervisor_lives(folder, *owner);  // before the record is read: it writes that last
  AttemptStatus status = written_status(folder, lives && live);
  if (has_ended(status.state)) return status;
  const bool stop_asked = fs::exists(folder.stop_mark(), code);
  if (lives)
    status.state = stop_asked ? AttemptState::stopping : status.state;
  else
    status.state = stop_asked ? AttemptState::stopped : AttemptState::lost;
  return status;
}

}  // namespace cohort::engine
