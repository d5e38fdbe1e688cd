#include "cohort/parallel/strategies/replica_strategy.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/parallel/cuda/wait_for_device.h"
#include "cohort/parallel/strategies/layout.h"
#include "cohort/parallel/strategies/run_replicas.h"
#include "cohort/transport/host.h"

namespace cohort::parallel {

namespace {

constexpr std::chrono::minutes kMeetingTime{5};

}  // namespace

ReplicaStrategy::ReplicaStrategy(Parts parts)
    : parts_(std::move(parts)),
      workers_(parts_.world->group->size()),
      worker_(parts_.world->group->rank()) {
  COHORT_CHECK(parts_.groups.empty() ? parts_.devices.size() == 1
                                     : parts_.groups.size() == parts_.devices.size(),
               "{} groups for {} replicas", parts_.groups.size(), parts_.devices.size());
}

void ReplicaStrategy::run(const std::function<void(const Replica&)>& body) {
  if (!parts_.world->group)
    throw InvalidInput(
        fmt::format("the strategy {} has no group to run with: this task left its job",
                    parts_.name),
        {.advice = "Call Context::leave() after the last use of the strategy."});
  std::vector<Replica> replicas;
  for (int local = 0; local < local_replicas(); ++local) {
    const auto i = static_cast<std::size_t>(local);
    collective::Group* group =
        parts_.groups.empty() ? parts_.world->group.get() : parts_.groups[i].get();
    replicas.push_back({.local = local,
                        .rank = group->rank(),
                        .size = group->size(),
                        .device = parts_.devices[i],
                        .group = group,
                        .transport = parts_.transport});
  }
  run_replicas(replicas, parts_.threads, [&](const Replica& replica) {
    if (!met_)
      use_devices(*replica.group, replica.device, parts_.transport, /*changes=*/false,
                  Deadline::after(kMeetingTime));
    body(replica);
  });
  met_ = true;
}

void ReplicaStrategy::leave(Deadline deadline) {
  if (!met_ || !parts_.devices.front().is_cuda()) return;
  run([&](const Replica& replica) {
    if (replica.group->device() == nullptr) return;
    wait_for_device(replica.device, replica.group, deadline);
    replica.group->barrier({deadline});
  });
}

std::vector<torch::Device> agree_on_devices(const std::string& strategy,
                                            const StrategySetup& setup) {
  const bool cuda = setup.flags.wants_cuda();
  const WorkerCard mine{.strategy = strategy,
                        .replicas = setup.flags.replicas_per_worker(),
                        .device = cuda ? "cuda" : "cpu",
                        .host = transport::host_identity(),
                        .visible_gpus = setup.visible_gpus,
                        .gpus = cuda ? static_cast<int>(torch::cuda::device_count()) : 0};
  const auto cards = exchange_cards(*setup.world->group, mine);
  check_same_layout(cards);
  return choose_devices(setup.flags, cards, setup.world->group->rank());
}

int threads_of(const StrategyFlags& flags) { return std::max(1, flags.threads); }

}  // namespace cohort::parallel
