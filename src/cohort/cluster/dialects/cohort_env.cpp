#include "cohort/cluster/dialects/cohort_env.h"

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/cluster_json.h"
#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/dialects/task_type_env.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

constexpr RankVariables kRanks = {"COHORT_RANK",       "COHORT_SIZE",       "COHORT_LOCAL_RANK",
                                  "COHORT_LOCAL_SIZE", "COHORT_CROSS_RANK", "COHORT_CROSS_SIZE"};
constexpr std::string_view kType = "COHORT_TASK_TYPE";
constexpr std::string_view kIndex = "COHORT_TASK_INDEX";
constexpr std::string_view kCluster = "COHORT_CLUSTER";
constexpr std::string_view kChiefTrains = "COHORT_CHIEF_TRAINS";

int number_or(const Environment& environment, std::string_view name, int least, int otherwise) {
  return read_number(environment, name, least).value_or(otherwise);
}

bool read_flag(const Environment& environment, std::string_view name, bool otherwise) {
  auto text = read_text(environment, name);
  if (!text) return otherwise;
  if (*text != "0" && *text != "1")
    throw InvalidInput(fmt::format("{}={} is neither 0 nor 1", name, *text),
                       {.advice = fmt::format("Set {} to 0 or 1.", name)});
  return *text == "1";
}

// The text as it is: a folder's name may end in a space.
void read_whole(const Environment& environment, std::string_view name, std::string& value) {
  if (read_text(environment, name)) value = *environment.find_value(name);
}

std::optional<ElasticLimits> read_limits(const Environment& environment) {
  constexpr std::string_view kElastic = "COHORT_ELASTIC";
  const auto text = read_text(environment, kElastic);
  if (!text) return std::nullopt;
  const std::vector<std::string> parts = split(*text, ':');
  const auto least = parse_unsigned(parts.front());
  const auto most = parse_unsigned(parts.back());
  if (parts.size() != 2 || !least || !most || *least < 1 || *least > *most || *most > kMaxNumber)
    throw InvalidInput(fmt::format("{}={} is not LEAST:MOST", kElastic, *text),
                       {.advice = "Set it to two numbers from 1, as in 2:8."});
  return ElasticLimits{static_cast<int>(*least), static_cast<int>(*most)};
}

std::optional<Role> read_named_task(const Environment& environment) {
  auto type = read_text(environment, kType);
  auto index = read_text(environment, kIndex);
  if (!type && !index) return std::nullopt;
  if (!type || !index)
    throw InvalidInput(fmt::format("{}={} is set but {} is not", type ? kType : kIndex,
                                   type ? *type : *index, type ? kIndex : kType),
                       {.advice = "Set both or neither."});
  return role_of_named_task(kType, *type, kIndex, *index);
}

// The numbers of a task that does not train: ranks of -1, sizes as they are.
void read_service_numbers(const Environment& environment, Role& role) {
  role.rank = role.local_rank = -1;
  role.size = number_or(environment, kRanks.size, 0, 1);
  role.local_size = number_or(environment, kRanks.local_size, 0, 1);
  role.cross_size = number_or(environment, kRanks.cross_size, 0, 1);
  bool none = read_text(environment, kRanks.cross_rank) == "-1";
  role.cross_rank = none ? -1 : number_or(environment, kRanks.cross_rank, 0, -1);
  role.size_known = true;
}

void check_rank_fits_task(const Role& role) {
  bool worker = role.task.type == TaskType::worker;
  bool leads = role.task.type == TaskType::chief || role.task.type == TaskType::master;
  if (role.is_training() == (worker || (leads && role.chief_trains))) return;
  throw InvalidInput(fmt::format("{}={} contradicts {}={}{}", kRanks.rank, role.rank, kType,
                                 to_string(role.task.type),
                                 role.chief_trains ? "" : " with COHORT_CHIEF_TRAINS=0"),
                     {.advice = "A task that trains has a rank from 0; any other has -1."});
}

// The numbers as they are set; the task's own type and index stay.
void read_numbers(const Environment& environment, bool task_is_named, Role& role) {
  TaskId task = role.task;
  if (task_is_named && read_text(environment, kRanks.rank) == "-1")
    read_service_numbers(environment, role);
  else
    read_ranks(environment, kRanks, Placement::one_host, role);
  if (!task_is_named) return;
  role.task = task;
  check_rank_fits_task(role);
}

void read_cluster(const std::string& text, bool has_numbers, Role& role) {
  role.cluster = parse_cluster_json(text, kCluster);
  try {
    role.cluster.validate();
    Role counted = role;
    fill_ranks(counted);
    if (!has_numbers) role = counted;
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", kCluster, error.message()), error.context());
  }
}

}  // namespace

std::optional<Role> read_cohort_env(const Environment& environment) {
  auto named = read_named_task(environment);
  auto cluster = read_text(environment, kCluster);
  bool has_numbers = has_ranks(environment, kRanks);
  if (!named && !has_numbers && !cluster) return std::nullopt;
  if (!named && cluster)
    throw InvalidInput("COHORT_CLUSTER is set, but nothing says which of its tasks this one is",
                       {.advice = "Set COHORT_TASK_TYPE and COHORT_TASK_INDEX, or unset it."});
  Role role = named.value_or(Role{});
  role.dialect = "Cohort";
  role.chief_trains = read_flag(environment, kChiefTrains, true);
  if (has_numbers) read_numbers(environment, named.has_value(), role);
  if (cluster) read_cluster(*cluster, has_numbers, role);
  add_cohort_settings(environment, role);
  return role;
}

void add_cohort_settings(const Environment& environment, Role& role) {
  read_whole(environment, "COHORT_JOB", role.job);
  read_whole(environment, "COHORT_STRATEGY", role.strategy);
  read_whole(environment, "COHORT_OUTPUT", role.output);
  role.attempt = number_or(environment, "COHORT_ATTEMPT", 1, role.attempt);
  role.max_restarts = number_or(environment, "COHORT_MAX_RESTARTS", 0, role.max_restarts);
  role.incarnation = number_or(environment, "COHORT_INCARNATION", 0, role.incarnation);
  role.resume = read_flag(environment, "COHORT_RESUME", role.resume);
  if (auto limits = read_limits(environment)) role.elastic = limits;
  if (auto store = read_address(environment, "COHORT_STORE")) role.store = store;
  if (auto master = read_address(environment, "COHORT_MASTER")) role.master = master;
  if (auto rendezvous = read_address(environment, "COHORT_HOROVOD_RENDEZVOUS"))
    role.horovod_rendezvous = rendezvous;
  bool chief_trains = read_flag(environment, kChiefTrains, role.chief_trains);
  if (chief_trains != role.chief_trains) {
    role.chief_trains = chief_trains;
    fill_ranks(role);
  }
}

void write_cohort_env(const Role& role, Environment& environment) {
  write_cohort_env(role, ClusterTexts(role.cluster).all, environment);
}

void write_cohort_env(const Role& role, const std::string& cluster, Environment& environment) {
  auto address_text = [](const std::optional<Address>& address) {
    return address ? to_string(*address) : std::string();
  };
  write_text(environment, kType, to_string(role.task.type));
  write_number(environment, kIndex, role.task.index);
  write_text(environment, kCluster, cluster);
  write_text(environment, kChiefTrains, role.chief_trains ? "1" : "0");
  if (role.size_known)
    write_ranks(role, kRanks, environment);
  else
    erase_ranks(kRanks, environment);
  write_text(environment, "COHORT_JOB", role.job);
  write_text(environment, "COHORT_STRATEGY", role.strategy);
  write_text(environment, "COHORT_OUTPUT", role.output);
  write_number(environment, "COHORT_ATTEMPT", role.attempt);
  write_number(environment, "COHORT_MAX_RESTARTS", role.max_restarts);
  write_text(environment, "COHORT_INCARNATION",
             role.incarnation > 0 ? std::to_string(role.incarnation) : "");
  write_text(environment, "COHORT_RESUME", role.resume ? "1" : "");
  write_text(environment, "COHORT_ELASTIC",
             role.elastic ? fmt::format("{}:{}", role.elastic->least, role.elastic->most) : "");
  write_text(environment, "COHORT_STORE", address_text(role.store));
  write_text(environment, "COHORT_MASTER", address_text(role.master));
  write_text(environment, "COHORT_HOROVOD_RENDEZVOUS", address_text(role.horovod_rendezvous));
}

}  // namespace cohort::cluster
