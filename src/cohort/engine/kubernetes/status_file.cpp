#include "cohort/engine/kubernetes/status_file.h"

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostStatus = std::size_t{16} << 20;

json number_or_null(const std::optional<int>& number) { return number ? json(*number) : json(); }

std::optional<int> number_of(const json& value) {
  return value.is_number_integer() ? std::optional(value.get<int>()) : std::nullopt;
}

AttemptState state_of(const std::string& name) {
  for (const auto state :
       {AttemptState::starting, AttemptState::running, AttemptState::stopping,
        AttemptState::succeeded, AttemptState::failed, AttemptState::stopped, AttemptState::lost})
    if (name_of(state) == name) return state;
  return AttemptState::starting;
}

}  // namespace

void write_status(const fs::path& folder, const AttemptStatus& status) {
  json tasks = json::array();
  for (const TaskStatus& task : status.tasks)
    tasks.push_back({{"name", task.name},
                     {"host", task.host},
                     {"state", task.state},
                     {"exit_code", number_or_null(task.exit_code)},
                     {"restarts", task.restarts},
                     {"started", task.started},
                     {"ended", task.ended}});
  const json all{{"state", name_of(status.state)},
                 {"exit_code", number_or_null(status.exit_code)},
                 {"failure", status.failure},
                 {"waiting", status.waiting},
                 {"started", status.started},
                 {"ended", status.ended},
                 {"workers", number_or_null(status.workers)},
                 {"tasks", tasks}};
  write_file_atomically(folder / "status.json",
                        all.dump(-1, ' ', false, json::error_handler_t::replace), 0600);
}

std::optional<AttemptStatus> read_status(const fs::path& folder) {
  try {
    const json all = json::parse(read_own_file(folder / "status.json", kMostStatus));
    AttemptStatus status{.state = state_of(all.at("state")),
                         .exit_code = number_of(all.at("exit_code")),
                         .failure = all.at("failure"),
                         .waiting = all.at("waiting"),
                         .started = all.at("started"),
                         .ended = all.at("ended"),
                         .workers = number_of(all.at("workers"))};
    for (const json& task : all.at("tasks"))
      status.tasks.push_back({.name = task.at("name"),
                              .host = task.at("host"),
                              .state = task.at("state"),
                              .exit_code = number_of(task.at("exit_code")),
                              .restarts = task.at("restarts"),
                              .started = task.at("started"),
                              .ended = task.at("ended")});
    return status;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const SystemError&) {
    return std::nullopt;
  }
}

}  // namespace cohort::engine::kubernetes
