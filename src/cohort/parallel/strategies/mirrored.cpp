// The strategy mirrored: one process, a replica a device, gradients summed in memory.
#include "cohort/parallel/strategies/replica_strategy.h"

namespace cohort::parallel {

std::shared_ptr<Strategy> make_mirrored(const StrategySetup& setup) {
  auto devices = agree_on_devices("mirrored", setup);
  auto groups = collective::make_inproc_groups(static_cast<int>(devices.size()),
                                               std::chrono::minutes(5), setup.network.tuning);
  return std::make_shared<ReplicaStrategy>(
      ReplicaStrategy::Parts{.name = "mirrored",
                             .world = setup.world,
                             .devices = std::move(devices),
                             .groups = std::move(groups),
                             .threads = threads_of(setup.flags),
                             .transport = parse_device_transport(setup.flags.transport)});
}

}  // namespace cohort::parallel
