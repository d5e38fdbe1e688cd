#pragma once

#include <memory>
#include <string>

#include "cohort/cluster/role.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/strategies/flags.h"
#include "cohort/parallel/strategies/strategy.h"

namespace cohort::membership {
class ElasticMembership;
}

namespace cohort::parallel {

// What a strategy is made from.
struct StrategySetup {
  std::shared_ptr<collective::World> world;
  collective::NetworkOptions network;  // for groups of its own
  StrategyFlags flags;
  std::string visible_gpus;  // CUDA_VISIBLE_DEVICES
  // In an elastic job, whose world has no group.
  std::shared_ptr<membership::ElasticMembership> elastic = {};
};

// The strategy that flags and launcher ask for, by one of strategy_names(). Pure.
// Throws InvalidInput for a strategy of one process in a job of several workers, for
// parameter_server where there are no ps tasks or several replicas a worker, for a name from the
// launcher that is not one of them, and in an elastic job for anything but multi_worker_mirrored
// with one replica a worker.
std::string resolve_strategy(const StrategyFlags& flags, const cluster::Role& role);

// Whether they ask for parameter_server, whatever this task's part is. Pure.
bool asks_for_parameter_server(const StrategyFlags& flags, const cluster::Role& role);

// Collective over the workers. Throws InvalidInput, and what forming a group throws.
std::shared_ptr<Strategy> make_strategy(const std::string& name, const StrategySetup& setup);

// The makers behind the table, one file each.
std::shared_ptr<Strategy> make_one_device(const StrategySetup& setup);
std::shared_ptr<Strategy> make_mirrored(const StrategySetup& setup);
std::shared_ptr<Strategy> make_multi_worker_mirrored(const StrategySetup& setup);
std::shared_ptr<Strategy> make_parameter_server(const StrategySetup& setup);
std::shared_ptr<Strategy> make_elastic(const StrategySetup& setup);

// Why there is no group with parameter_server, for InvalidInput.
inline constexpr const char* kNoGroup =
    "with the strategy parameter_server workers form no group, so that none can break the others";
inline constexpr const char* kNoGroupAdvice =
    "Use a Trainer, or multi_worker_mirrored for collectives of your own.";

}  // namespace cohort::parallel
