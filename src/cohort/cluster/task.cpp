#include "cohort/cluster/task.h"

#include <array>
#include <climits>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::cluster {
namespace {

// In the order of TaskType.
constexpr std::array<std::string_view, 5> kTaskTypeNames = {"chief", "master", "worker", "ps",
                                                            "evaluator"};

}  // namespace

std::string_view to_string(TaskType type) { return kTaskTypeNames.at(static_cast<size_t>(type)); }

TaskType parse_task_type(std::string_view text) {
  for (size_t i = 0; i < kTaskTypeNames.size(); ++i)
    if (kTaskTypeNames[i] == text) return static_cast<TaskType>(i);
  std::vector<std::string> names(kTaskTypeNames.begin(), kTaskTypeNames.end());
  std::string meant = nearest(text, names);
  throw InvalidInput(fmt::format("Invalid task type '{}'", text),
                     {.advice = (meant.empty() ? "" : fmt::format("Did you mean '{}'? ", meant)) +
                                "Use one of " + join(names, ", ") + "."});
}

std::string to_string(const TaskId& task) {
  return fmt::format("{}/{}", to_string(task.type), task.index);
}

TaskId parse_task_id(std::string_view text) {
  size_t separator = text.find_first_of("/:");
  auto index = separator == std::string_view::npos ? std::nullopt
                                                   : parse_unsigned(text.substr(separator + 1));
  if (!index || *index > INT_MAX)
    throw InvalidInput(fmt::format("'{}' does not name a task", text),
                       {.advice = "Write the type and the index, as in worker/1 or ps:0."});
  return {parse_task_type(text.substr(0, separator)), static_cast<int>(*index)};
}

}  // namespace cohort::cluster
