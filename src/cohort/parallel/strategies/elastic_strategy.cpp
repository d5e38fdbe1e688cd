// The strategy multi_worker_mirrored of an elastic job: one replica a worker, and a group for each
// view, which the replica's ElasticMembership forms while it trains.
#include "cohort/base/error.h"
#include "cohort/membership/group/elastic_membership.h"
#include "cohort/parallel/strategies/layout.h"
#include "cohort/parallel/strategies/replica_strategy.h"
#include "cohort/parallel/strategies/run_replicas.h"

namespace cohort::parallel {

namespace {

// Neighbours come and go, so none is asked: each slot of the host has its GPU.
torch::Device device_of(const StrategySetup& setup) {
  if (!setup.flags.wants_cuda()) return torch::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0)
    throw InvalidInput("the flags ask for a GPU, but LibTorch sees none",
                       {.advice = "Use a LibTorch built for CUDA on a machine with a GPU, or leave "
                                  "the flag out."});
  const int slot = setup.world->session->role().local_rank;
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(slot % gpus)};
}

class ElasticStrategy final : public Strategy {
 public:
  explicit ElasticStrategy(const StrategySetup& setup)
      : world_(setup.world),
        elastic_(setup.elastic),
        device_(device_of(setup)),
        threads_(threads_of(setup.flags)),
        transport_(parse_device_transport(setup.flags.transport)) {}

  std::string name() const override { return "multi_worker_mirrored"; }
  int workers() const override {
    return elastic_->is_member() ? elastic_->size() : elastic_->limits().most;
  }
  int worker() const override {
    return elastic_->is_member() ? elastic_->rank() : world_->session->role().rank;
  }
  int local_replicas() const override { return 1; }
  int shards() const override { return elastic_->limits().most; }
  int slot() const override { return world_->session->role().rank; }
  int slots() const override { return elastic_->limits().most; }
  bool is_elastic() const override { return true; }
  bool resumes() const override { return world_->session->role().resume; }
  std::string job() const override { return world_->session->role().job; }

  void run(const std::function<void(const Replica&)>& body) override {
    if (has_left_)
      throw InvalidInput("the strategy has no group to run with: this worker left its elastic job",
                         {.advice = "Call Context::leave() after the last use of the strategy."});
    run_replicas({{.local = 0,
                   .rank = worker(),
                   .size = workers(),
                   .device = device_,
                   .group = elastic_->is_member() ? &elastic_->group() : nullptr,
                   .elastic = elastic_.get(),
                   .transport = transport_}},
                 threads_, body);
  }

  bool has_group() const override { return elastic_->is_member() && !has_left_; }
  void leave(Deadline) override { has_left_ = true; }

 private:
  std::shared_ptr<collective::World> world_;
  std::shared_ptr<membership::ElasticMembership> elastic_;
  torch::Device device_;
  int threads_;
  DeviceTransport transport_;
  bool has_left_ = false;
};

}  // namespace

std::shared_ptr<Strategy> make_elastic(const StrategySetup& setup) {
  return std::make_shared<ElasticStrategy>(setup);
}

}  // namespace cohort::parallel
