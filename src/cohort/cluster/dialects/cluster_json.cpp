#include "cohort/cluster/dialects/cluster_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/json_error.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(std::string_view source, const std::string& what, std::string advice) {
  throw InvalidInput(fmt::format("{}: {}", source, what), {.advice = std::move(advice)});
}

Address read_one(const json& value, TaskId task, std::string_view source) {
  if (!value.is_string())
    refuse(source,
           fmt::format("the address of {} is {}, not a text", to_string(task), value.dump()),
           "Write it as \"host:port\".");
  try {
    return parse_address(value.get_ref<const std::string&>());
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}: {}", source, to_string(task), error.message()),
                       error.context());
  }
}

std::vector<Address> read_list(const json& list, TaskType type, std::string_view source) {
  std::vector<Address> addresses;
  for (const json& value : list)
    addresses.push_back(read_one(value, {type, static_cast<int>(addresses.size())}, source));
  return addresses;
}

std::vector<Address> read_dictionary(const json& tasks, TaskType type, std::string_view source) {
  std::map<int, Address> by_index;
  for (const auto& [key, value] : tasks.items()) {
    auto index = parse_unsigned(key);
    if (!index || *index > static_cast<unsigned>(kMaxNumber))
      refuse(source, fmt::format("\"{}\" has the task index \"{}\"", to_string(type), key),
             "Use the numbers 0, 1, 2, ... as names of its tasks.");
    TaskId task{type, static_cast<int>(*index)};
    if (!by_index.emplace(task.index, read_one(value, task, source)).second)
      refuse(source, fmt::format("{} has two addresses", to_string(task)), "Keep one of them.");
  }
  std::vector<Address> addresses;
  for (auto& [index, address] : by_index) {
    if (index != static_cast<int>(addresses.size()))
      refuse(source,
             fmt::format("\"{}\" has a task {} but no task {}", to_string(type), index,
                         addresses.size()),
             "Number its tasks from 0 without gaps.");
    addresses.push_back(std::move(address));
  }
  return addresses;
}

void append_quoted(const std::string& value, std::string& text) {
  const bool is_plain = std::all_of(value.begin(), value.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (is_plain)
    text.append(1, '"').append(value).append(1, '"');
  else
    text += json(value).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

// A launcher writes it for each of its tasks, each time with all of them: no tree of JSON is built.
std::string write_cluster_json(const ClusterSpec& cluster, Evaluator evaluator) {
  std::string text;
  std::optional<TaskType> type;
  for (const TaskId& task : cluster.tasks()) {
    if (task.type == TaskType::evaluator && evaluator == Evaluator::leave_out) continue;
    if (task.type == type) {
      text += ',';
    } else {
      text += fmt::format("{}\"{}\":[", type ? "]," : "", to_string(task.type));
      type = task.type;
    }
    append_quoted(to_string(cluster.address(task)), text);
  }
  return fmt::format("{{{}{}}}", text, type ? "]" : "");
}

ClusterSpec parse_cluster_json(std::string_view text, std::string_view source) {
  json jobs;
  try {
    jobs = json::parse(text);
  } catch (const json::parse_error& error) {
    throw broken_json(source, text, error.byte > 0 ? error.byte - 1 : 0, error.what());
  } catch (const json::exception& error) {
    throw InvalidInput(fmt::format("{} is not JSON: {}", source, error.what()));
  }
  if (!jobs.is_object())
    refuse(source, fmt::format("the cluster is {}, not a dictionary", jobs.dump().substr(0, 60)),
           "Write it as {\"worker\": [\"host:port\", ...]}.");
  ClusterSpec cluster;
  for (const auto& [name, tasks] : jobs.items()) {
    TaskType type;
    try {
      type = parse_task_type(name);
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("{}: in the cluster: {}", source, error.message()),
                         error.context());
    }
    if (tasks.is_array())
      cluster.set(type, read_list(tasks, type, source));
    else if (tasks.is_object())
      cluster.set(type, read_dictionary(tasks, type, source));
    else
      refuse(source,
             fmt::format("\"{}\" is {}, not a list of addresses", name, tasks.dump().substr(0, 60)),
             fmt::format("Write it as \"{}\": [\"host:port\", ...].", name));
  }
  return cluster;
}

}  // namespace cohort::cluster
