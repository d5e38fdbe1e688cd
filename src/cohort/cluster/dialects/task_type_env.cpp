#include "cohort/cluster/dialects/task_type_env.h"

#include "cohort/base/error.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr std::string_view kPlainTaskType = "TASK_TYPE";
constexpr std::string_view kPlainTaskIndex = "TASK_INDEX";
constexpr std::string_view kSize = "WORLD_SIZE";

bool trains(TaskType type) { return type != TaskType::ps && type != TaskType::evaluator; }
bool may_be_many(TaskType type) { return type == TaskType::worker || type == TaskType::ps; }

}  // namespace

Role role_of_named_task(std::string_view type_name, std::string_view type,
                        std::string_view index_name, std::string_view index) {
  Role role;
  role.task.index = parse_number(index_name, index);
  try {
    role.task.type = parse_task_type(type);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{} in {}", error.message(), type_name), error.context());
  }
  if (role.task.index > 0 && !may_be_many(role.task.type))
    throw InvalidInput(
        fmt::format("{}={} with {}={}: a job has one {}", index_name, index, type_name, type, type),
        {.advice = fmt::format("Set {} to 0, or {} to worker.", index_name, type_name)});
  role.size_known = false;
  if (trains(role.task.type)) {
    role.rank = role.task.index;
    role.size = role.rank + 1;
  } else {
    role.rank = role.local_rank = role.cross_rank = -1;
  }
  return role;
}

std::optional<Role> read_task_type_env(const Environment& environment) {
  auto type = read_text(environment, kPlainTaskType);
  auto index_text = read_text(environment, kPlainTaskIndex);
  if (!type && !index_text) return std::nullopt;
  if (!type)
    throw InvalidInput(fmt::format("TASK_INDEX={} is set but TASK_TYPE is not", *index_text),
                       {.advice = "Set TASK_TYPE to worker or ps, or unset TASK_INDEX."});
  if (!index_text)
    throw InvalidInput(fmt::format("TASK_TYPE={} is set but TASK_INDEX is not", *type),
                       {.advice = "Set TASK_INDEX to 0, 1, ..., or unset TASK_TYPE."});
  Role role = role_of_named_task(kPlainTaskType, *type, kPlainTaskIndex, *index_text);
  role.dialect = kPlainTaskType;
  auto size = read_number(environment, kSize, 1);
  if (size && !read_text(environment, "RANK")) {
    if (role.rank >= *size)
      throw InvalidInput(
          fmt::format("TASK_INDEX={} is not below WORLD_SIZE={}", role.task.index, *size),
          {.advice = "Indices count from 0: lower TASK_INDEX, or raise WORLD_SIZE."});
    role.size = *size;
    role.size_known = true;
  }
  return role;
}

void write_task_type_env(const Role& role, Environment& environment) {
  write_text(environment, kPlainTaskType, to_string(role.task.type));
  write_number(environment, kPlainTaskIndex, role.task.index);
}

}  // namespace cohort::cluster
