#include "cohort/parallel/strategies/make_strategy.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

namespace {

constexpr std::pair<const char*, std::shared_ptr<Strategy> (*)(const StrategySetup&)> kMakers[] = {
    {"one_device", make_one_device},
    {"mirrored", make_mirrored},
    {"multi_worker_mirrored", make_multi_worker_mirrored},
    {"parameter_server", make_parameter_server},
};

void check_servers(const StrategyFlags& flags, const cluster::Role& role) {
  if (flags.replicas_per_worker() > 1)
    throw InvalidInput(fmt::format("the strategy parameter_server has one replica a worker, but "
                                   "the flags ask for {}",
                                   flags.replicas_per_worker()),
                       {.advice = "Start more workers instead."});
  const std::size_t servers = role.cluster.addresses(cluster::TaskType::ps).size();
  if (flags.servers.dry_run) {
    if (servers == 0 && flags.servers.num_ps == 0)
      throw InvalidInput("a --dry_run of parameter_server does not know how many servers there are",
                         {.advice = "Give --num_ps N, or start it under `cohort run --ps N`."});
    return;
  }
  if (servers == 0)
    throw InvalidInput("the strategy parameter_server needs ps tasks, and this job has none",
                       {.advice = "Start it with `cohort run --ps N`, or name them in TF_CONFIG's "
                                  "cluster."});
}

void check_elastic(const std::string& name, const StrategyFlags& flags) {
  if (name != "multi_worker_mirrored")
    throw InvalidInput(
        fmt::format("the strategy {} cannot be elastic: workers must be able to come and go", name),
        {.advice = "Use multi_worker_mirrored, or start the job without --elastic."});
  if (flags.replicas_per_worker() > 1)
    throw InvalidInput(fmt::format("{} is {}, but a worker of an elastic job has one replica",
                                   flags.num_gpus > 1 ? "--num_gpus" : "--num_replicas",
                                   flags.replicas_per_worker()),
                       {.advice = "Start more workers instead: one a GPU."});
}

}  // namespace

bool asks_for_parameter_server(const StrategyFlags& flags, const cluster::Role& role) {
  const std::string& name =
      flags.distribution_strategy.empty() ? role.strategy : flags.distribution_strategy;
  return name == "parameter_server" || name == "ps";
}

std::string resolve_strategy(const StrategyFlags& flags, const cluster::Role& role) {
  const int replicas = flags.replicas_per_worker();
  const bool by_flag = !flags.distribution_strategy.empty();
  std::string name = by_flag ? flags.distribution_strategy : role.strategy;
  if (name.empty() && role.elastic) name = "multi_worker_mirrored";
  if (name.empty())
    name = role.size > 1 ? "multi_worker_mirrored" : replicas > 1 ? "mirrored" : "one_device";
  if (name == "off") name = "one_device";
  if (name == "ps") name = "parameter_server";

  const auto known = strategy_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw InvalidInput(
        fmt::format("the launcher asks for the strategy '{}', which is not one of {}", name,
                    join(known, ", ")),
        {.advice = "Start with another `cohort run --strategy`, or give the program a "
                   "--distribution_strategy."});
  if (role.elastic) check_elastic(name, flags);
  if (role.size > 1 && (name == "one_device" || name == "mirrored"))
    throw InvalidInput(
        fmt::format("the strategy {} trains in one process, but this job has {} workers",
                    by_flag ? flags.distribution_strategy : name, role.size),
        {.advice = "Use multi_worker_mirrored, or start one process."});
  if (name == "one_device" && replicas > 1)
    throw InvalidInput(
        fmt::format("the launcher asks for one_device, but the flags for {} replicas", replicas),
        {.advice = "Use --distribution_strategy mirrored."});
  if (name == "parameter_server")
    check_servers(flags, role);
  else if (!flags.servers.given.empty())
    throw InvalidInput(
        fmt::format("{} is a flag of parameter_server, but the strategy is {}",
                    flags.servers.given.front(), name),
        {.advice = "Add --distribution_strategy parameter_server, or leave the flag out."});
  return name;
}

std::shared_ptr<Strategy> make_strategy(const std::string& name, const StrategySetup& setup) {
  if (setup.elastic) return make_elastic(setup);
  for (const auto& [known, make] : kMakers)
    if (name == known) return make(setup);
  throw InvalidInput(fmt::format("there is no strategy '{}'", name),
                     {.advice = "Use one of " + join(strategy_names(), ", ") + "."});
}

}  // namespace cohort::parallel
