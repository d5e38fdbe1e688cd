#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cohort/train/callbacks/callback.h"
#include "cohort/train/callbacks/fit_state.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/loop/epoch_loader.h"
#include "cohort/train/loop/fit_clock.h"
#include "cohort/train/loop/position.h"
#include "cohort/train/loop/replica_trainer.h"
#include "cohort/train/options/options.h"

namespace cohort::train {

// What the callbacks of a process decided, for its replicas to follow. Written by the first between
// two collectives, read by the others after the second; an older value is replaced by the next.
class FitControl {
 public:
  void set_rates(std::vector<double> rates) {
    const std::scoped_lock lock(mutex_);
    rates_ = std::move(rates);
  }
  std::vector<double> rates() const {
    const std::scoped_lock lock(mutex_);
    return rates_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<double> rates_;  // of all parameter groups
};

// What a fit() is given. Everything lent must outlive the FitLoop.
struct FitInputs {
  parallel::Strategy& strategy;
  SourcePtr data;
  const FitOptions& options;
  const TrainerOptions& trainer_options;
  // In the order in which they are called; empty on replicas that are not their process's first.
  std::span<const std::shared_ptr<Callback>> callbacks;
  FitControl& control;
  bool changes_gradients = false;  // there are GradientCallbacks, on this replica or another
};

// One replica's fit(): epochs of steps, validation, and on the first replica of the process the
// callbacks, as a row of stages. All replicas of the job run one side by side. Used once, on the
// replica's thread.
//
// In an elastic job ElasticFit (elastic_fit.h) runs the stages one by one, and a stage that broke
// off because a replica was lost again, from the state before it; callbacks may so see an event
// twice, with the same values.
class FitLoop {
 public:
  // `steps_done`: where this replica stands, at `position` or, in a process that was started anew,
  // behind it.
  FitLoop(ReplicaTrainer& trainer, FitInputs inputs, Position position, std::int64_t steps_done);
  ~FitLoop();
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  // Before run(): an earlier process had ended this training here.
  void stop_as_before(const std::string& why);

  FitResult run();  // all stages; on_failure() of the callbacks where one of them throws

  const Position& position() const { return position_; }
  void run_stage();
  // Back to before the stage that broke off. Callbacks have their state back already.
  void go_back(const Position& before);
  void tell_failure() noexcept;  // to the callbacks: this loop is given up
  FitResult result() const;

  ReplicaTrainer& trainer() { return trainer_; }
  const FitInputs& inputs() const { return inputs_; }
  FitState& callback_state() { return callback_state_; }
  // The replica's group is another one: what callbacks reach by way of it follows.
  void set_group();
  void call_callbacks(void (Callback::*event)(FitState&));  // of this process; nothing is agreed on
  // What another replica needs besides the tensors to go on exactly here.
  nlohmann::json snapshot(const TrainingState& state) const;
  void apply_snapshot(const nlohmann::json& snapshot);
  // A newcomer, after apply_snapshot(): its callbacks see how a training begins.
  void join();

 private:
  void init_callback_state();
  Checkpoint make_own_checkpoint();
  std::unique_ptr<collective::Group> form_workers_group() const;
  void go_to(std::int64_t step);
  void begin_training();
  void begin_epoch();
  void run_step();
  void end_step();
  void end_epoch();
  void end_training();
  void catch_up();
  FitStage after_step() const;
  void validate();
  void before_update(std::size_t phase);
  void call(void (Callback::*event)(FitState&));
  void follow_requests();
  void show_position();
  void read(const std::vector<StepResult>& steps);
  void read_rest() { read(trainer_.read_rest()); }
  bool must_read() const;
  std::vector<std::int64_t> reading_periods() const;
  void show_step(const StepResult& step);
  bool is_over() const;
  bool validation_is_due() const;
  void say_nothing_is_left() const;
  std::chrono::nanoseconds waited() const;

  ReplicaTrainer& trainer_;
  FitInputs inputs_;
  Position position_;
  EpochLoader loader_;
  FitClock clock_;
  std::unique_ptr<collective::Group> workers_group_;  // where a process has several replicas
  FitState callback_state_;
  std::vector<std::int64_t> read_every_;  // steps, for callbacks of any replica
  std::vector<Logs> history_;
  std::int64_t steps_done_ = 0;  // of the training; more than position_.step: without this replica
  bool stopped_before_ = false;
};

}  // namespace cohort::train
