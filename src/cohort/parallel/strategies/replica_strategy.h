#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/parallel/strategies/make_strategy.h"

namespace cohort::parallel {

// What all strategies with whole replicas have in common; the makers differ in the groups.
class ReplicaStrategy final : public Strategy {
 public:
  struct Parts {
    std::string name;
    std::shared_ptr<collective::World> world;
    std::vector<torch::Device> devices;  // one a local replica
    // One a local replica; none: the only replica uses the world's.
    std::vector<std::unique_ptr<collective::Group>> groups;
    int threads = 1;
    DeviceTransport transport = DeviceTransport::host;
  };
  explicit ReplicaStrategy(Parts parts);

  std::string name() const override { return parts_.name; }
  int workers() const override { return workers_; }
  int worker() const override { return worker_; }
  bool resumes() const override { return parts_.world->session->role().resume; }
  int local_replicas() const override { return static_cast<int>(parts_.devices.size()); }
  void run(const std::function<void(const Replica&)>& body) override;
  // A device group goes when all ranks' GPUs are past its last call.
  void leave(Deadline deadline) override;

 private:
  Parts parts_;
  int workers_;
  int worker_;
  bool met_ = false;  // the replicas' GPUs have met
};

// Tells the other workers what this one was started for, checks that they agree, and chooses this
// worker's devices. Collective over the workers.
std::vector<torch::Device> agree_on_devices(const std::string& strategy,
                                            const StrategySetup& setup);

int threads_of(const StrategyFlags& flags);

}  // namespace cohort::parallel
