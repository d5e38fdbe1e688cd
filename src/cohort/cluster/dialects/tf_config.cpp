#include "cohort/cluster/dialects/tf_config.h"

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/cluster_json.h"
#include "cohort/cluster/dialects/json_error.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what, std::string advice) {
  throw InvalidInput(fmt::format("TF_CONFIG: {}", what), {.advice = std::move(advice)});
}

std::string shown(const json& value) { return value.dump().substr(0, 60); }

// What "task" says; each part may be missing.
struct NamedTask {
  std::optional<TaskType> type;
  std::optional<int> index;
};

json parse_top(std::string_view text) {
  json top;
  try {
    top = json::parse(text);
  } catch (const json::parse_error& error) {
    throw broken_json(kTfConfig, text, error.byte > 0 ? error.byte - 1 : 0, error.what());
  } catch (const json::exception& error) {
    refuse(fmt::format("not JSON: {}", error.what()), "Correct the text.");
  }
  if (!top.is_object())
    refuse(fmt::format("the text is {}, not a dictionary", shown(top)),
           "Write {\"cluster\": {...}, \"task\": {\"type\": \"worker\", \"index\": 0}}.");
  return top;
}

const json& member(const json& object, const char* key) {
  static const json kMissing;
  auto found = object.find(key);
  return found == object.end() ? kMissing : *found;
}

std::optional<int> read_index(const json& value) {
  if (value.is_null()) return std::nullopt;
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  auto number = parse_unsigned(trim(text));
  if (value.is_boolean() || !number || *number > static_cast<unsigned>(kMaxNumber))
    refuse(fmt::format("the task's index is {}", shown(value)),
           "Use a whole number from 0, smaller than the number of such tasks.");
  return static_cast<int>(*number);
}

NamedTask read_task(const json& task) {
  if (task.is_null()) return {};
  if (!task.is_object())
    refuse(fmt::format("the task is {}, not a dictionary", shown(task)),
           "Write \"task\": {\"type\": \"worker\", \"index\": 0}.");
  NamedTask named{.index = read_index(member(task, "index"))};
  const json& type = member(task, "type");
  if (type.is_null()) return named;
  if (!type.is_string())
    refuse(fmt::format("the task's type is {}, not a text", shown(type)),
           "Write \"type\": \"worker\".");
  const auto& name = type.get_ref<const std::string&>();
  if (name.empty()) return named;
  try {
    named.type = parse_task_type(name);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("TF_CONFIG: {}", error.message()), error.context());
  }
  return named;
}

Role role_alone(const NamedTask& named) {
  Role role;
  role.dialect = kTfConfig;
  role.task = {named.type.value_or(TaskType::worker), named.index.value_or(0)};
  if (role.task.type == TaskType::ps || role.task.index != 0)
    refuse(fmt::format("the task is {}, but there is no cluster", to_string(role.task)),
           "Add \"cluster\": {\"worker\": [\"host:port\", ...], ...}.");
  if (role.task.type == TaskType::evaluator) {
    role.rank = role.local_rank = role.cross_rank = -1;
    role.size_known = false;
  }
  return role;
}

}  // namespace

Role parse_tf_config(std::string_view text) {
  json top = parse_top(text);
  NamedTask named = read_task(member(top, "task"));
  const json& cluster = member(top, "cluster");
  Role role;
  role.dialect = kTfConfig;
  if (!cluster.is_null()) role.cluster = parse_cluster_json(cluster.dump(), kTfConfig);
  // Empty lists and no task: a platform's way to say that there is no cluster. With a task, a slip.
  if (role.cluster.empty() && !cluster.empty() && named.type)
    refuse(fmt::format("the cluster {} is empty: it has no address", shown(cluster)),
           "Add at least one worker, as in \"worker\": [\"host:port\"], or leave the cluster out.");
  if (role.cluster.empty()) return role_alone(named);
  if (!named.type)
    refuse("there is a cluster, but nothing says which of its tasks this process is",
           "Add \"task\": {\"type\": \"worker\", \"index\": 0}, with this process's own index.");
  bool one_of_its_kind = role.cluster.addresses(*named.type).size() <= 1;
  if (!named.index && !one_of_its_kind)
    refuse(fmt::format("the task has the type {} but no index", to_string(*named.type)),
           fmt::format("Add \"index\": 0 to {} for this process.",
                       role.cluster.addresses(*named.type).size() - 1));
  role.task = {*named.type, named.index.value_or(0)};
  try {
    role.cluster.validate();
    fill_ranks(role);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("TF_CONFIG: {}", error.message()), error.context());
  }
  return role;
}

std::string write_tf_config(const Role& role) {
  return write_tf_config(role, write_cluster_json(role.cluster, Evaluator::leave_out));
}

std::string write_tf_config(const Role& role, const std::string& cluster) {
  return fmt::format(R"({{"cluster":{},"task":{{"type":"{}","index":{}}},"environment":"cloud"}})",
                     cluster, to_string(role.task.type), role.task.index);
}

}  // namespace cohort::cluster
