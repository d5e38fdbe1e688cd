#include "cohort/train/callbacks/horovod.h"

#include "cohort/parallel/tensors/broadcast_state.h"

namespace cohort::train {

void MetricAverage::on_epoch_end(FitState& fit) {
  Logs added;
  for (const auto& [name, value] : fit.logs)
    if (!fit.is_exact(name)) added[name] = value;
  if (added.empty()) return;
  for (const auto& [name, value] : parallel::average_metrics(fit.workers(), added))
    fit.logs[name] = value;
}

}  // namespace cohort::train
