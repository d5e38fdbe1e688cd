#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/train/data/batch_plan.h"
#include "cohort/train/model/sums.h"

namespace cohort::train {

// How the replicas of a job share an evaluation of `items` batches: which of them this replica
// takes, and the sums of all, in their order. Every replica makes the same calls.
// Threads, ownership and failure: as StepSync.
class EvaluationSharing {
 public:
  virtual ~EvaluationSharing() = default;

  virtual bool validates() const = 0;  // in the middle of a training
  virtual void refresh() = 0;          // before an evaluation that the user asked for
  virtual Range share(std::int64_t items) const = 0;
  // `mine` are the items [first, first + mine.size()); `none`: sums of nothing, of
  // their shape.
  virtual Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items,
                      const Sums& none) = 0;
  // All replicas' rows in their order.
  virtual torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) = 0;
  // What there is to say about an epoch, beside the loss.
  virtual void add_logs(Logs& logs) = 0;

  virtual std::chrono::nanoseconds waited() const = 0;  // for other replicas
};

}  // namespace cohort::train
