#pragma once

#include "cohort/train/callbacks/callback.h"

// What Horovod's users put first into their list of callbacks.
namespace cohort::train {

// Every replica starts with worker 0's parameters, buffers and optimizer state. fit() adds it where
// the list has none.
class BroadcastGlobalVariables : public Callback {
 public:
  CallbackOrder order() const override { return CallbackOrder::broadcast; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override { fit.broadcast_variables(); }
};

// Averages over the workers what earlier callbacks of the `broadcast` and `average` stages added to
// an epoch's logs. The loss and metrics of fit() are sums over all workers already and stay as they
// are. All workers' logs must have the same names.
class MetricAverage : public Callback {
 public:
  CallbackOrder order() const override { return CallbackOrder::average; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_epoch_end(FitState& fit) override;
};

}  // namespace cohort::train
