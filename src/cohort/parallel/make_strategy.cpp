#include "cohort/parallel/make_strategy.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

namespace {

[[noreturn]] std::shared_ptr<Strategy> refuse_parameter_server(const StrategySetup&) {
  throw InvalidInput("the strategy parameter_server is not in this version of Cohort",
                     {.advice = "Use multi_worker_mirrored, which needs no ps tasks."});
}

constexpr std::pair<const char*, std::shared_ptr<Strategy> (*)(const StrategySetup&)> kMakers[] = {
    {"one_device", make_one_device},
    {"mirrored", make_mirrored},
    {"multi_worker_mirrored", make_multi_worker_mirrored},
    {"parameter_server", refuse_parameter_server},
};

}  // namespace

std::string resolve_strategy(const StrategyFlags& flags, const cluster::Role& role) {
  const int replicas = flags.replicas_per_worker();
  const bool by_flag = !flags.distribution_strategy.empty();
  std::string name = by_flag ? flags.distribution_strategy : role.strategy;
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
  if (role.size > 1 && (name == "one_device" || name == "mirrored"))
    throw InvalidInput(
        fmt::format("the strategy {} trains in one process, but this job has {} workers",
                    by_flag ? flags.distribution_strategy : name, role.size),
        {.advice = "Use multi_worker_mirrored, or start one process."});
  if (name == "one_device" && replicas > 1)
    throw InvalidInput(
        fmt::format("the launcher asks for one_device, but the flags for {} replicas", replicas),
        {.advice = "Use --distribution_strategy mirrored."});
  return name;
}

std::shared_ptr<Strategy> make_strategy(const std::string& name, const StrategySetup& setup) {
  for (const auto& [known, make] : kMakers)
    if (name == known) return make(setup);
  throw InvalidInput(fmt::format("there is no strategy '{}'", name),
                     {.advice = "Use one of " + join(strategy_names(), ", ") + "."});
}

}  // namespace cohort::parallel
