#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "cohort/membership/protocol/view.h"
#include "cohort/train/callback.h"
#include "cohort/train/checkpoint/training_state.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/loader.h"
#include "cohort/train/fit_state.h"
#include "cohort/train/options.h"
#include "cohort/train/replica_trainer.h"

namespace cohort::train {

// What a training is made of, one after the other. A stage is committed as a whole, with the last
// agreement of the replicas in it, and depends on nothing but the state before it.
enum class Stage { train_begin, epoch_begin, step, step_end, epoch_end, train_end, over };

// Where a training stands between two stages; what a resumed one starts from.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t step = 0;
  Sums sums;  // of the epoch so far
  Stage next = Stage::train_begin;
  bool stop = false;  // all replicas agreed to end
};

// What the callbacks of a process decided, for its replicas to follow. Written by the first between
// two collectives, read by the others after the second; an older value is replaced by the next.
struct FitControl {
  std::atomic<double> learning_rate = 0;
};

// In an elastic job: whoever had the state of the training is gone before it had begun, so it
// begins again with those that are there.
struct BeginAgain {};

// One replica's fit(): epochs of steps, validation, and on the first replica of the process the
// callbacks. All replicas of the job run one side by side. Used once, on the replica's thread.
//
// In an elastic job a stage that broke off because a replica was lost is done again with those that
// are left, from the state before it; callbacks may so see an event twice, with the same values
// (fit_elastic.cpp).
class FitLoop {
 public:
  // Everything lent must outlive it. `callbacks` in the order in which they are called; empty on
  // replicas that are not their process's first. `steps_done`: where this replica stands, at
  // `position` or, in a process that was started anew, behind it.
  FitLoop(ReplicaTrainer& trainer, parallel::Strategy& strategy, DatasetPtr data,
          const FitOptions& options, const TrainerOptions& trainer_options,
          std::span<const std::shared_ptr<Callback>> callbacks, FitControl& control,
          Position position, std::int64_t steps_done);

  // For a newcomer to a training under way, before run(): goes to where another replica says that
  // training stands. The tensors come meanwhile.
  // `image` is what it told.
  void join(const nlohmann::json& image);
  // Called once all replicas have begun alike, before the first step.
  void on_begun(std::function<void()> begun) { begun_hook_ = std::move(begun); }
  // Before run(): an earlier process had ended this training here.
  void stop_as_before(const std::string& why);

  // Throws BeginAgain only in an elastic job.
  FitResult run();
  const Position& position() const { return position_; }

 private:
  void go_to(std::int64_t step);
  void run_stage();
  void begin_epoch();
  void run_step();
  bool catch_up();
  void end_epoch();
  void end_training();
  Stage after_step() const;
  Logs validate();
  void call(void (Callback::*event)(FitState&));
  void update_view(const Sums& sums);
  void show_replica();
  void show_position();
  bool is_over() const;
  bool validation_is_due() const;
  void say_nothing_is_left() const;
  std::unique_ptr<collective::Group> form_workers_group(const parallel::Strategy& strategy) const;
  Loader& loader();
  std::unique_ptr<Loader> load_epoch() const;

  // Of an elastic job.
  struct Behind {  // what this replica had before it began to copy another's state
    std::int64_t stage = membership::kNoState;
    nlohmann::json image;
  };
  bool is_finished();
  void run_stage_or_recover();
  void commit_stage(bool stepped);
  void change_members(const std::string& why);
  void expect_progress(const std::string& why);
  void show_view();
  nlohmann::json image(const TrainingState& state) const;
  void adopt(const nlohmann::json& image);
  void take_state(const nlohmann::json& image);
  void give_state();

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
  std::int64_t steps_done_ = 0;  // of the training; more than position_.step: without this replica
  std::int64_t epoch_samples_ = 0;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point epoch_begun_;
  std::chrono::nanoseconds waited_before_;

  struct LoaderPlace {  // what a Loader gives next
    std::int64_t epoch = -1;
    std::int64_t step = -1;
    int first_shard = 0;
    int shards = 0;
    bool operator==(const LoaderPlace&) const = default;
  };
  std::unique_ptr<Loader> loader_;
  LoaderPlace loader_place_;

  ElasticExchange* elastic_;  // or null
  std::int64_t stage_ = membership::kNoState;
  std::unique_ptr<Behind> behind_;
  bool stopped_before_ = false;
  std::function<void()> begun_hook_;
  std::vector<membership::ViewMember> failing_members_;  // of the last unplanned change, and where
  int fruitless_changes_ = 0;                            // with these, in a row
  double rate_told_ = 0;  // the learning rate of whoever gave the state
};

}  // namespace cohort::train
