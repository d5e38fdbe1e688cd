#pragma once

#include <string_view>

#include "cohort/cluster/role.h"

namespace cohort::cluster {

// The names that one dialect gives to the six numbers of a Role; "" where it has none.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view cross_rank = "";
  std::string_view cross_size = "";
};

// What to believe of a dialect that says nothing about hosts.
enum class Placement { one_host, one_task_a_host };

// True when the environment has the dialect's rank or size.
bool has_ranks(const Environment& environment, const RankVariables& names);

// Reads the numbers into `role`, and makes it worker/<rank>. Derives what is not set: local numbers
// from `placement`; cross numbers as if ranks were dealt host by host, as many to each.
// Throws InvalidInput, naming variable and value, for: rank or size missing (a size of 1 needs no
// rank), no number, a rank that is not below its size, a local size above the size.
void read_ranks(const Environment& environment, const RankVariables& names, Placement placement,
                Role& role);

// The writers' counterpart. erase_ranks is for a task that does not train.
void write_ranks(const Role& role, const RankVariables& names, Environment& environment);
void erase_ranks(const RankVariables& names, Environment& environment);

}  // namespace cohort::cluster
