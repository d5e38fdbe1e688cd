#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/train/callback.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/loader.h"
#include "cohort/train/fit_state.h"
#include "cohort/train/options.h"
#include "cohort/train/replica_trainer.h"

namespace cohort::train {

// Where a training stands between two steps; what a resumed one starts from.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t step = 0;
  Sums sums;  // of the epoch so far
};

// What the callbacks of a process decided, for its replicas to follow. Written by the first between
// two collectives, read by the others after the second; an older value is replaced by the next.
struct FitControl {
  std::atomic<double> learning_rate = 0;
};

// One replica's fit(): epochs of steps, validation, and on the first replica of the process the
// callbacks. All replicas of the job run one side by side. Used once, on the replica's thread.
class FitLoop {
 public:
  // Everything lent must outlive it. `callbacks` in the order in which they are called; empty on
  // replicas that are not their process's first. `steps_done`: where this replica stands, at
  // `position` or, in a process that was started anew, behind it.
  FitLoop(ReplicaTrainer& trainer, parallel::Strategy& strategy, DatasetPtr data,
          const FitOptions& options, const TrainerOptions& trainer_options,
          std::span<const std::shared_ptr<Callback>> callbacks, FitControl& control,
          Position position, std::int64_t steps_done);

  FitResult run();
  const Position& position() const { return position_; }

 private:
  void go_to(std::int64_t step);
  void run_epoch();
  void run_step(Loader& loader);
  bool catch_up();
  void end_epoch();
  Logs validate();
  void call(void (Callback::*event)(FitState&));
  void update_view(const Sums& sums);
  bool is_over() const;
  std::unique_ptr<collective::Group> form_workers_group(const parallel::Strategy& strategy) const;
  std::unique_ptr<Loader> load_epoch() const;

  ReplicaTrainer& trainer_;
  DatasetPtr data_;
  const FitOptions& options_;
  const TrainerOptions& trainer_options_;
  std::span<const std::shared_ptr<Callback>> callbacks_;
  FitControl& control_;
  Position position_;
  BatchPlan plan_;
  std::unique_ptr<collective::Group> own_workers_group_;  // where a process has several replicas
  FitState view_;
  FitResult result_;
  bool stop_ = false;
  std::int64_t steps_done_ = 0;  // of the training; more than position_.step: without this replica
  std::int64_t epoch_samples_ = 0;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point epoch_begun_;
  std::chrono::nanoseconds waited_before_;
};

}  // namespace cohort::train
