// The strategy parameter_server: workers that share no group, each with one replica, and servers
// that hold the parameters.
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/parallel/strategies/make_strategy.h"
#include "cohort/parallel/strategies/replica_strategy.h"
#include "cohort/parallel/strategies/run_replicas.h"
#include "cohort/parallel/strategies/servers.h"
#include "cohort/parallel/tensors/no_group.h"

namespace cohort::parallel {

namespace {

torch::Device device_of(const StrategyFlags& flags, const cluster::Role& role) {
  if (!flags.wants_cuda()) return torch::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0)
    throw InvalidInput("--device is cuda, but LibTorch sees 0 GPUs",
                       {.advice = "Use a LibTorch built for CUDA on a machine with a GPU, or leave "
                                  "the flag out."});
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(role.local_rank % gpus)};
}

class ParameterServerStrategy final : public Strategy {
 public:
  explicit ParameterServerStrategy(const StrategySetup& setup)
      : role_(setup.world->session->role()),
        device_(device_of(setup.flags, role_)),
        threads_(threads_of(setup.flags)),
        group_(make_no_group(role_.rank, role_.size, kNoGroup, kNoGroupAdvice)),
        servers_(setup.world, setup.flags.servers,
                 {.worker = role_.rank,
                  .workers = role_.size,
                  .chief = role_.rank == 0,
                  .incarnation = static_cast<std::uint64_t>(role_.incarnation),
                  .servers = role_.cluster.addresses(cluster::TaskType::ps),
                  .job = setup.world->session->key("ps"),
                  .secret = setup.network.secret,
                  .tls = setup.network.tls,
                  .shared_memory = setup.flags.servers.shared_memory,
                  .wire = setup.flags.servers.wire}) {}

  std::string name() const override { return "parameter_server"; }
  int workers() const override { return role_.size; }
  int worker() const override { return role_.rank; }
  int local_replicas() const override { return 1; }
  bool resumes() const override { return role_.resume; }
  std::string job() const override { return role_.job; }
  // An update that wants more gradients than there are workers takes several of each.
  int shards() const override {
    return std::max(role_.size, servers_.flags().replicas_to_aggregate);
  }
  bool has_group() const override { return false; }

  void run(const std::function<void(const Replica&)>& body) override {
    run_replicas({{.local = 0,
                   .rank = role_.rank,
                   .size = role_.size,
                   .device = device_,
                   .group = group_.get(),
                   .servers = &servers_}},
                 threads_, body);
  }

  void leave(Deadline deadline) override { servers_.leave(deadline); }

 private:
  cluster::Role role_;
  torch::Device device_;
  int threads_;
  std::unique_ptr<collective::Group> group_;
  Servers servers_;
};

}  // namespace

std::shared_ptr<Strategy> make_parameter_server(const StrategySetup& setup) {
  return std::make_shared<ParameterServerStrategy>(setup);
}

}  // namespace cohort::parallel
