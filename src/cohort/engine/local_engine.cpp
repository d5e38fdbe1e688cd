#include "cohort/engine/local_engine.h"

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/attempt_log.h"
#include "cohort/engine/attempt_status.h"
#include "cohort/engine/supervisor_process.h"
#include "cohort/engine/task_start.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kScaleTime{2};
constexpr std::chrono::milliseconds kLookHolds{100};

}  // namespace

LocalEngine::LocalEngine(fs::path cohort)
    : cohort_(cohort.empty() ? this_program() : std::move(cohort)) {}

void LocalEngine::check(const jobspec::ResolvedJob& job, const fs::path& source) const {
  const auto missing = missing_here({.source = source, .job = job},
                                    cluster::Environment::of_this_process(), Looked::at_all);
  if (!missing.empty())
    throw InvalidInput(fmt::format("the job could not start: {}", join(missing, "; ")),
                       {.advice = "Put it in place, or correct the description."});
}

void LocalEngine::submit(const AttemptRequest& request) {
  const AttemptFolder folder{request.folder};
  if (claimed_by(folder)) return;
  write_request(request);
  start_supervisor(cohort_, request.folder);
  owner_of(request.folder);
}

// Remembers it, for the time when the folder is gone.
std::optional<std::string> LocalEngine::owner_of(const fs::path& folder) const {
  const auto owner = claimed_by({folder});
  const std::lock_guard lock(mutex_);
  if (owner) seen_[folder] = *owner;
  return owner;
}

AttemptStatus LocalEngine::observe(const fs::path& folder) const {
  const bool has_claim = owner_of(folder).has_value();
  AttemptStatus status = attempt_status({folder}, /*live=*/true);
  const std::lock_guard lock(mutex_);
  looked_.erase(folder);
  const auto seen = seen_.find(folder);
  if (seen == seen_.end()) return status;
  if (has_claim && has_ended(status.state)) seen_.erase(seen);
  if (status.state != AttemptState::unknown) return status;
  ask_to_stop(seen->second);
  status.state = AttemptState::lost;
  status.failure = fmt::format("the attempt's folder '{}' was removed", folder.string());
  return status;
}

// The logs of all tasks are read one after the other, and each time the launcher's record, which is
// as long as there are tasks, would be read for one bit. An end that is seen a little late is an end.
bool LocalEngine::ended_by_now(const fs::path& folder) const {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(looked_, [&](const auto& look) { return look.second.at + kLookHolds < now; });
    if (const auto found = looked_.find(folder); found != looked_.end()) return found->second.ended;
  }
  const bool ended = has_ended(attempt_status({folder}, /*live=*/false).state);
  const std::lock_guard lock(mutex_);
  looked_[folder] = {.at = now, .ended = ended};
  return ended;
}

LogChunk LocalEngine::read_log(const fs::path& folder, std::string_view task, std::uint64_t offset,
                               std::size_t most_bytes) const {
  const bool ended = ended_by_now(folder);  // before the log is read: what was written is there
  return read_attempt_log({folder}, task, offset, most_bytes, ended);
}

void LocalEngine::stop(const fs::path& folder) {
  const AttemptFolder files{folder};
  const auto owner = owner_of(folder);
  const AttemptState state = attempt_status(files, /*live=*/false).state;
  if (has_ended(state)) return;
  if (fs::is_directory(folder)) write_file_atomically(files.stop_mark(), utc_timestamp(), 0600);
  if (owner) ask_to_stop(*owner);
}

void LocalEngine::scale(const fs::path& folder, int workers) {
  const AttemptFolder files{folder};
  const auto refuse = [](const std::string& why) {
    throw InvalidInput(why, {.advice = "Only an elastic job that runs can have another number of "
                                       "workers."});
  };
  if (attempt_status(files, /*live=*/false).state != AttemptState::running)
    refuse("the attempt does not run");
  using nlohmann::json;
  const std::string socket = control_socket(files);
  if (socket.empty()) refuse("the attempt's launcher cannot be asked");
  const json request{{"command", "scale"}, {"workers", workers}};
  try {
    const auto answer =
        json::parse(launch::ask_launcher(socket, request.dump(), Deadline::after(kScaleTime)),
                    nullptr, /*allow_exceptions=*/false);
    if (answer.is_object() && answer.contains("ok") && answer["ok"] == true) return;
    const bool says_why =
        answer.is_object() && answer.contains("message") && answer["message"].is_string();
    throw InvalidInput(says_why ? answer["message"].get<std::string>() : "it refuses");
  } catch (const PeerError& error) {  // it has just ended
    refuse(error.message());
  }
}

std::vector<fs::path> LocalEngine::list(const fs::path& jobs) const {
  std::vector<fs::path> running;
  std::error_code code;
  for (const auto& job : fs::directory_iterator(jobs, code))
    for (const auto& attempt : fs::directory_iterator(job.path() / "attempts", code)) {
      const AttemptStatus status = attempt_status({attempt.path()}, /*live=*/false);
      if (status.state != AttemptState::unknown && !has_ended(status.state))
        running.push_back(attempt.path());
    }
  return running;
}

}  // namespace cohort::engine
