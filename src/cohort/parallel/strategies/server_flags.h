#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/parallel/strategies/flag_help.h"
#include "cohort/ps/model/policy.h"
#include "cohort/ps/wire/messages.h"

// The flags of the strategy parameter_server. Pure functions and values.
namespace cohort::parallel {

struct ServerFlags {
  // As given; policy() says what follows.
  std::optional<bool> sync_replicas;
  std::optional<std::int64_t> staleness;  // steps ahead of the slowest; -1: any number
  int replicas_to_aggregate = 0;          // 0: all workers
  ps::Policy::NotFinite not_finite = ps::Policy::NotFinite::refuse;

  ps::Durability durability = ps::Durability::process;
  std::uint64_t memory_limit = 0;  // bytes a server; 0: none
  ps::WireType wire = ps::WireType::exact;
  bool shared_memory = true;
  std::chrono::milliseconds worker_timeout = std::chrono::minutes(1);
  bool dry_run = false;
  int num_ps = 0;  // for a dry run where no cluster tells it

  std::vector<std::string> given;  // names of the flags that were, for refusals

  ps::Policy policy() const;
};

// Whether `name` is one of them; its value goes into `flags`. Throws InvalidInput that names flag,
// value and what is allowed.
bool assign_server_flag(ServerFlags& flags, const std::string& name, const std::string& value);

// Throws InvalidInput for flags that contradict each other, by name and value.
void check_server_flags(const ServerFlags& flags);

std::vector<FlagHelp> server_flags_help();

}  // namespace cohort::parallel
