#include "cohort/cluster/dialects/scheduler_args.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/task_type_env.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr std::string_view kDialect = "scheduler arguments";
constexpr std::string_view kJobName = "job_name";
constexpr std::string_view kTaskIndex = "task_index";
constexpr std::pair<std::string_view, TaskType> kHostLists[] = {
    {"ps_hosts", TaskType::ps},
    {"worker_hosts", TaskType::worker},
    {"chief_hosts", TaskType::chief},
    {"master_hosts", TaskType::master},
};

bool is_ours(std::string_view name) {
  return name == kJobName || name == kTaskIndex ||
         std::any_of(std::begin(kHostLists), std::end(kHostLists),
                     [&](const auto& list) { return list.first == name; });
}

struct Collected {
  std::map<std::string, std::string, std::less<>> found;  // ours with a value, underscores in names
  std::vector<std::string> rest;                          // the others, in their order
};

Collected collect(const std::vector<std::string>& arguments) {
  Collected collected;
  auto& [found, rest] = collected;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    std::string_view word = arguments[i];
    if (word.starts_with('-')) word.remove_prefix(word.starts_with("--") ? 2 : 1);
    size_t equals = word.find('=');
    std::string name(word.substr(0, equals));
    std::replace(name.begin(), name.end(), '-', '_');
    if (!arguments[i].starts_with('-') || !is_ours(name)) {
      rest.push_back(arguments[i]);
      continue;
    }
    std::string_view value;
    if (equals != std::string_view::npos)
      value = word.substr(equals + 1);
    else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
      value = arguments[++i];
    if (value = trim(value); value.empty())
      found.erase(name);
    else
      found[name] = value;
  }
  return collected;
}

std::vector<Address> parse_hosts(std::string_view name, std::string_view list) {
  std::vector<Address> addresses;
  for (const std::string& part : split(list, ',')) {
    try {
      addresses.push_back(parse_address(trim(part)));
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("--{}={}: {}", name, list, error.message()), error.context());
    }
  }
  return addresses;
}

[[noreturn]] void miss(std::string_view name, std::string_view advice) {
  throw InvalidInput(fmt::format("the arguments list hosts, but --{} is missing or empty", name),
                     {.advice = std::string(advice)});
}

}  // namespace

std::optional<Role> parse_scheduler_args(const std::vector<std::string>& arguments) {
  const auto found = collect(arguments).found;
  Role role;
  role.dialect = kDialect;
  for (auto [name, type] : kHostLists)
    if (auto list = found.find(name); list != found.end())
      role.cluster.set(type, parse_hosts(name, list->second));
  auto job_name = found.find(kJobName);
  auto task_index = found.find(kTaskIndex);
  if (role.cluster.empty() && (job_name == found.end() || task_index == found.end()))
    return std::nullopt;
  if (job_name == found.end())
    miss(kJobName, "Add --job_name=worker or --job_name=ps for this process.");
  if (task_index == found.end()) miss(kTaskIndex, "Add --task_index=0, 1, ... for this process.");

  if (role.cluster.empty()) {
    role = role_of_named_task("--job_name", job_name->second, "--task_index", task_index->second);
    role.dialect = kDialect;
    return role;
  }
  role.task.index = parse_number("--task_index", task_index->second);
  try {
    role.task.type = parse_task_type(job_name->second);
    role.cluster.validate();
    fill_ranks(role);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("--job_name={} --task_index={}: {}", job_name->second,
                                   task_index->second, error.message()),
                       error.context());
  }
  return role;
}

std::vector<std::string> without_scheduler_args(const std::vector<std::string>& arguments) {
  return parse_scheduler_args(arguments) ? collect(arguments).rest : arguments;
}

std::vector<std::string> write_scheduler_args(const Role& role) {
  std::vector<std::string> arguments = {
      fmt::format("--job_name={}", to_string(role.task.type)),
      fmt::format("--task_index={}", role.task.index),
  };
  for (auto [name, type] : kHostLists) {
    std::vector<std::string> hosts;
    for (const Address& address : role.cluster.addresses(type)) hosts.push_back(to_string(address));
    if (!hosts.empty()) arguments.push_back(fmt::format("--{}={}", name, join(hosts, ",")));
  }
  return arguments;
}

}  // namespace cohort::cluster
