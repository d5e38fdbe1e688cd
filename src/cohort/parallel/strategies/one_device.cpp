// The strategy one_device: one process, one replica.
#include "cohort/parallel/strategies/replica_strategy.h"

namespace cohort::parallel {

std::shared_ptr<Strategy> make_one_device(const StrategySetup& setup) {
  return std::make_shared<ReplicaStrategy>(
      ReplicaStrategy::Parts{.name = "one_device",
                             .world = setup.world,
                             .devices = agree_on_devices("one_device", setup),
                             .groups = {},
                             .threads = threads_of(setup.flags)});
}

}  // namespace cohort::parallel
