#pragma once

#include <functional>

#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/sync/evaluation_sharing.h"

namespace cohort::train {

// Replicas that have a group: each takes a part of the items.
class GroupEvaluation final : public EvaluationSharing {
 public:
  // `replica` must outlive it, and may change between calls (elastic_sync.h). `logs`: add_logs().
  GroupEvaluation(const parallel::Replica& replica, std::chrono::milliseconds timeout,
                  std::function<void(Logs&)> logs)
      : replica_(replica), timeout_(timeout), logs_(std::move(logs)) {}

  bool validates() const override { return true; }
  void refresh() override {}
  Range share(std::int64_t items) const override;
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items,
              const Sums& none) override;
  torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) override;
  void add_logs(Logs& logs) override {
    if (logs_) logs_(logs);
  }
  std::chrono::nanoseconds waited() const override { return waited_; }

 private:
  const parallel::Replica& replica_;
  std::chrono::milliseconds timeout_;
  std::function<void(Logs&)> logs_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
