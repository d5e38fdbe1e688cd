#include "cohort/engine/attempt_status.h"

#include <map>

#include "cohort/engine/attempt_log.h"
#include "cohort/engine/launcher_record.h"
#include "cohort/engine/mpi_ranks.h"
#include "cohort/engine/mpi_start.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kLogEnd = 16 * 1024;

std::vector<TaskStatus> tasks_of(const ordered_json& record) {
  std::vector<TaskStatus> tasks;
  for (const auto& task : record_list(record, "tasks"))
    tasks.push_back({.name = record_task(task),
                     .host = record_text(task, "host"),
                     .state = record_text(task, "state"),
                     .exit_code = record_number(task, "exit_code"),
                     .restarts = record_number(task, "restarts").value_or(0) +
                                 record_number(task, "attempt").value_or(1) - 1,
                     .started = record_text(task, "started"),
                     .ended = record_text(task, "ended")});
  return tasks;
}

std::optional<int> members_of(const ordered_json& record) {
  const auto elastic = record.find("elastic");
  if (elastic == record.end() || !elastic->is_object()) return std::nullopt;
  int members = 0;
  for (const auto& member : record_list(*elastic, "members")) {
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
  if (std::string said = record_text(record, "failure"); !said.empty()) return said;
  const auto cause = record.find("root_cause");
  if (cause == record.end() || !cause->is_object()) return "";
  if (is_mpi_job(folder)) {
    if (std::string rank = read_ranks(folder).failure; !rank.empty()) return rank;
    std::error_code code;
    const auto size = fs::file_size(record_text(*cause, "log"), code);
    const std::uint64_t from = code || size < kLogEnd ? 0 : size - kLogEnd;
    const auto log = read_attempt_log(folder, kMpirunTask, from, kLogEnd, true);
    if (std::string rank = killed_rank(log.bytes); !rank.empty()) return rank;
  }
  return record_text(*cause, "summary");
}

// What the record says; it holds as long as the launcher lives, and when it says the end.
void take_record(const AttemptFolder& folder, const ordered_json& record, AttemptStatus& status) {
  status.state = state_named(record_text(record, "state"));
  status.exit_code = record_number(record, "exit_code");
  status.started = record_text(record, "started");
  status.ended = record_text(record, "ended");
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
  ordered_json record = read_launcher_record(folder);
  if (live && !record.is_null()) record = live_launcher_record(std::move(record));
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
  return record_text(read_launcher_record(folder), "control");
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
