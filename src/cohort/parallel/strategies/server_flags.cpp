#include "cohort/parallel/strategies/server_flags.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

namespace {

constexpr int kMaxReplicas = 1 << 20;

bool truth(const std::string& flag, const std::string& value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  refuse_flag(flag, value, "true or false");
}

std::int64_t steps(const std::string& flag, const std::string& value) {
  if (value == "inf" || value == "-1") return -1;
  const auto number = parse_unsigned(value);
  if (!number || *number > std::uint64_t{1} << 32)
    refuse_flag(flag, value, "a number of steps, or inf");
  return static_cast<std::int64_t>(*number);
}

std::uint64_t bytes(const std::string& flag, const std::string& value) {
  const std::string units = "KMGT";
  std::string digits = value;
  int shift = 0;
  if (!digits.empty()) {
    const std::size_t unit = units.find(static_cast<char>(std::toupper(digits.back())));
    if (unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      digits.pop_back();
    }
  }
  const auto parsed = parse_unsigned(digits);
  if (!parsed || *parsed > std::numeric_limits<std::uint64_t>::max() >> shift)
    refuse_flag(flag, value, "a number of bytes, with K, M, G or T behind it if you like");
  return *parsed << shift;
}

std::chrono::milliseconds seconds(const std::string& flag, const std::string& value) {
  double parsed = 0;
  std::size_t used = 0;
  try {
    parsed = std::stod(value, &used);
  } catch (const std::logic_error&) {  // no number at all: `used` stays 0
  }
  constexpr double kMost = 1e6;
  if (used == 0 || used != value.size() || !(parsed > 0) || parsed > kMost)
    refuse_flag(flag, value, "a number of seconds above 0");
  return std::chrono::milliseconds(std::llround(parsed * 1000));
}

ps::WireType wire(const std::string& flag, const std::string& value) {
  if (value == "f32") return ps::WireType::exact;
  if (value == "f16") return ps::WireType::f16;
  if (value == "bf16") return ps::WireType::bf16;
  refuse_flag(flag, value, "one of f32, f16, bf16");
}

std::string say(std::int64_t staleness) {
  return staleness < 0 ? "inf" : std::to_string(staleness);
}

}  // namespace

ps::Policy ServerFlags::policy() const {
  ps::Policy policy{.aggregate = replicas_to_aggregate, .not_finite = not_finite};
  const std::int64_t ahead = staleness.value_or(sync_replicas.value_or(true) ? 0 : -1);
  policy.mode = ahead == 0  ? ps::Policy::Mode::sync
                : ahead < 0 ? ps::Policy::Mode::async
                            : ps::Policy::Mode::bounded;
  if (policy.mode == ps::Policy::Mode::bounded) policy.staleness = ahead;
  return policy;
}

bool assign_server_flag(ServerFlags& flags, const std::string& name, const std::string& value) {
  if (name == "--sync_replicas")
    flags.sync_replicas = truth(name, value);
  else if (name == "--staleness")
    flags.staleness = steps(name, value);
  else if (name == "--replicas_to_aggregate")
    flags.replicas_to_aggregate = count_flag(name, value, 0, kMaxReplicas);
  else if (name == "--ps_not_finite")
    flags.not_finite = ps::parse_not_finite(value);
  else if (name == "--ps_durability")
    flags.durability = ps::parse_durability(value);
  else if (name == "--ps_memory_limit")
    flags.memory_limit = bytes(name, value);
  else if (name == "--ps_wire")
    flags.wire = wire(name, value);
  else if (name == "--ps_shared_memory")
    flags.shared_memory = truth(name, value);
  else if (name == "--worker_timeout")
    flags.worker_timeout = seconds(name, value);
  else if (name == "--dry_run")
    flags.dry_run = truth(name, value);
  else if (name == "--num_ps")
    flags.num_ps = count_flag(name, value, 1, kMaxReplicas);
  else
    return false;
  flags.given.push_back(name);
  return true;
}

void check_server_flags(const ServerFlags& flags) {
  if (flags.sync_replicas && flags.staleness && *flags.sync_replicas != (*flags.staleness == 0))
    throw InvalidInput(fmt::format("--sync_replicas is {}, but --staleness is {}",
                                   *flags.sync_replicas, say(*flags.staleness)),
                       {.advice = "A staleness of 0 is synchronous, any other is not: leave one of "
                                  "them out."});
  if (flags.replicas_to_aggregate > 0 && flags.policy().mode != ps::Policy::Mode::sync)
    throw InvalidInput(
        fmt::format("--replicas_to_aggregate is {}, but {}", flags.replicas_to_aggregate,
                    flags.staleness ? "--staleness is " + say(*flags.staleness)
                                    : std::string("--sync_replicas is false")),
        {.advice = "Only synchronous training adds up gradients of several workers."});
  if (flags.num_ps > 0 && !flags.dry_run)
    throw InvalidInput(fmt::format("--num_ps is {}, but there is no --dry_run", flags.num_ps),
                       {.advice = "Start parameter servers with `cohort run --ps N`."});
}

std::vector<FlagHelp> server_flags_help() {
  return {
      {"--sync_replicas", "true|false",
       "parameter_server: one update a step from all workers (default), or one a worker, as they "
       "come"},
      {"--staleness", "S",
       "parameter_server: steps that a worker may be ahead of the slowest; 0: synchronous, inf: "
       "asynchronous"},
      {"--replicas_to_aggregate", "N",
       "parameter_server: gradients an update waits for; fewer than workers: the others are "
       "backup; "
       "more: several a worker (default 0: one of each)"},
      {"--ps_durability", "LEVEL",
       "what a server's state outlives: none, process (default), replica, disk"},
      {"--ps_memory_limit", "BYTES",
       "most memory of a server's state, e.g. 512M (default: no limit)"},
      {"--ps_not_finite", "RULE", "gradients that are not finite: refuse (default), drop or apply"},
      {"--ps_wire", "TYPE", "of gradients and values between hosts: f32 (default), f16 or bf16"},
      {"--ps_shared_memory", "true|false", "with servers on the same host (default true)"},
      {"--worker_timeout", "SECONDS",
       "how long servers wait for a worker that is gone (default 60)"},
      {"--dry_run", "",
       "parameter_server: print what would lie on which server, and train nothing"},
      {"--num_ps", "N", "servers of a --dry_run where no cluster tells"},
  };
}

}  // namespace cohort::parallel
