#pragma once

#include "cohort/train/sync/evaluation_sharing.h"
#include "cohort/train/sync/server_sync.h"

namespace cohort::train {

// Workers with parameter servers: each evaluates everything by itself; during a training worker 0
// alone does. `steps` must outlive it.
class ServerEvaluation final : public EvaluationSharing {
 public:
  explicit ServerEvaluation(ServerSync& steps) : steps_(steps) {}

  bool validates() const override { return steps_.replica().is_first(); }
  void refresh() override { steps_.refresh(); }
  Range share(std::int64_t items) const override { return {0, items}; }
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items,
              const Sums& none) override;
  torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) override;
  void add_logs(Logs& logs) override;
  std::chrono::nanoseconds waited() const override { return {}; }

 private:
  ServerSync& steps_;
};

}  // namespace cohort::train
