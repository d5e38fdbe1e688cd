#include "cohort/cluster/dialects/rank_variables.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

std::optional<int> find_number(const Environment& environment, std::string_view name, int least) {
  return name.empty() ? std::nullopt : read_number(environment, name, least);
}

[[noreturn]] void miss(std::string_view present, int value, std::string_view missing) {
  throw InvalidInput(fmt::format("{}={} is set but {} is not", present, value, missing),
                     {.advice = fmt::format("Set {} too, or unset {}.", missing, present)});
}

void check_below(std::string_view rank_name, int rank, std::string_view size_name, int size) {
  if (rank < size) return;
  throw InvalidInput(fmt::format("{}={} is not below {}={}", rank_name, rank, size_name, size),
                     {.advice = fmt::format("Ranks count from 0: set {} to 0..{}, or raise {}.",
                                            rank_name, size - 1, size_name)});
}

void read_local(const Environment& environment, const RankVariables& names, Placement placement,
                Role& role) {
  auto local_rank = find_number(environment, names.local_rank, 0);
  auto local_size = find_number(environment, names.local_size, 1);
  bool one_host = placement == Placement::one_host;
  role.local_rank = local_rank.value_or(one_host ? role.rank : 0);
  role.local_size = local_size.value_or(one_host ? role.size : role.local_rank + 1);
  if (local_size && !local_rank) role.local_rank = role.rank % *local_size;
  check_below(names.local_rank, role.local_rank, names.local_size, role.local_size);
  if (role.local_size > role.size)
    throw InvalidInput(fmt::format("{}={} is above {}={}", names.local_size, role.local_size,
                                   names.size, role.size),
                       {.advice = "A host cannot have more tasks than the job."});
}

void read_cross(const Environment& environment, const RankVariables& names, Role& role) {
  auto cross_rank = find_number(environment, names.cross_rank, 0);
  auto cross_size = find_number(environment, names.cross_size, 1);
  int hosts = (role.size + role.local_size - 1) / role.local_size;
  int host = std::max(0, role.rank - role.local_rank) / role.local_size;
  role.cross_size = cross_size.value_or(std::max(hosts, cross_rank.value_or(0) + 1));
  role.cross_rank = cross_rank.value_or(std::min(host, role.cross_size - 1));
  check_below(names.cross_rank, role.cross_rank, names.cross_size, role.cross_size);
}

}  // namespace

bool has_ranks(const Environment& environment, const RankVariables& names) {
  return read_text(environment, names.rank) || read_text(environment, names.size);
}

void read_ranks(const Environment& environment, const RankVariables& names, Placement placement,
                Role& role) {
  auto rank = read_number(environment, names.rank);
  auto size = read_number(environment, names.size, 1);
  if (rank && !size) miss(names.rank, *rank, names.size);
  if (!rank && size && *size > 1) miss(names.size, *size, names.rank);
  role.rank = rank.value_or(0);
  role.size = size.value_or(1);
  role.size_known = true;
  role.task = {TaskType::worker, role.rank};
  check_below(names.rank, role.rank, names.size, role.size);
  read_local(environment, names, placement, role);
  read_cross(environment, names, role);
}

void write_ranks(const Role& role, const RankVariables& names, Environment& environment) {
  for (auto [name, value] :
       {std::pair{names.rank, role.rank}, std::pair{names.size, role.size},
        std::pair{names.local_rank, role.local_rank}, std::pair{names.local_size, role.local_size},
        std::pair{names.cross_rank, role.cross_rank}, std::pair{names.cross_size, role.cross_size}})
    if (!name.empty()) write_number(environment, name, value);
}

void erase_ranks(const RankVariables& names, Environment& environment) {
  for (auto name : {names.rank, names.size, names.local_rank, names.local_size, names.cross_rank,
                    names.cross_size})
    if (!name.empty()) erase(environment, name);
}

}  // namespace cohort::cluster
