#include "cohort/train/fit_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/elastic_exchange.h"
#include "cohort/train/resume.h"

namespace cohort::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_in(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

BatchPlan plan_of(const Dataset& data, const TrainerOptions& trainer, const FitOptions& fit,
                  int shards) {
  return BatchPlan({.samples = data.size(),
                    .global_batch = trainer.batch_size,
                    .shards = shards,
                    .seed = trainer.seed,
                    .shuffle = fit.shuffle});
}

}  // namespace

FitLoop::FitLoop(ReplicaTrainer& trainer, parallel::Strategy& strategy, DatasetPtr data,
                 const FitOptions& options, const TrainerOptions& trainer_options,
                 std::span<const std::shared_ptr<Callback>> callbacks, FitControl& control,
                 Position position, std::int64_t steps_done)
    : trainer_(trainer),
      data_(std::move(data)),
      options_(options),
      trainer_options_(trainer_options),
      callbacks_(callbacks),
      control_(control),
      position_(std::move(position)),
      plan_(plan_of(*data_, trainer_options, options, trainer.shards())),
      own_workers_group_(form_workers_group(strategy)),
      begun_(Clock::now()),
      waited_before_(trainer.exchange().waited()),
      elastic_(trainer.exchange().elastic()) {
  position_.next = Stage::train_begin;
  position_.stop = false;
  view_.steps_per_epoch =
      options.steps_per_epoch > 0 ? options.steps_per_epoch : plan_.steps_per_epoch();
  go_to(steps_done);
  if (options.fast_dev_run) view_.steps_per_epoch = position_.step_in_epoch + 1;
  if (position_.step_in_epoch > view_.steps_per_epoch)
    throw InvalidInput(
        fmt::format("training stands after step {} of an epoch, but steps_per_epoch is {}",
                    position_.step_in_epoch, view_.steps_per_epoch),
        {.advice = "Go on with the steps_per_epoch that it was begun with."});
  view_.epochs = options.epochs;
  view_.max_steps = options.max_steps;
  view_.samples = data_->size();
  view_.batch_size = trainer_options.batch_size;
  view_.shards = trainer.shards();
  view_.fast_dev_run = options.fast_dev_run;
  view_.strategy_ = &strategy;
  view_.module_ = &trainer.model().module();
  view_.optimizer_ = &trainer.optimizer();
  view_.rate_ = &trainer.learning_rate();
  view_.make_checkpoint_ = [this] {
    Checkpoint checkpoint = make_checkpoint(trainer_, position_, trainer_options_, callbacks_);
    if (const std::string job = view_.strategy().job(); !job.empty())
      checkpoint.state.extra[kJob] = job;
    if ((position_.stop || stopped_before_) &&
        !view_.stop_reason_.starts_with(FitState::kInterrupted))
      checkpoint.state.extra[kStopReason] = view_.stop_reason_;
    return checkpoint;
  };
  if (elastic_)
    elastic_->keep_ledger({.samples = data_->size(),
                           .batch = trainer_options.batch_size,
                           .shards = trainer.shards(),
                           .seed = trainer_options.seed,
                           .shuffle = options.shuffle,
                           .steps_per_epoch = view_.steps_per_epoch});
  if (elastic_) show_view();
  show_position();
  show_replica();
}

void FitLoop::stop_as_before(const std::string& why) {
  stopped_before_ = true;
  view_.stop_reason_ = why;
}

void FitLoop::show_position() {
  view_.epoch = position_.epoch;
  view_.step = position_.step;
  view_.step_in_epoch = position_.step_in_epoch;
}

// What callbacks reach by way of the group that there is now.
void FitLoop::show_replica() {
  view_.workers_ = own_workers_group_ ? own_workers_group_.get() : trainer_.replica().group;
  view_.gradients_ = &trainer_.exchange().gradients();
}

// Past steps that this worker has behind it already. At an epoch's last step it stays in that
// epoch, whose end nobody may have seen.
void FitLoop::go_to(std::int64_t step) {
  if (step == position_.step) return;
  position_.step_in_epoch += step - position_.step;
  position_.step = step;
  const std::int64_t epochs =
      std::max<std::int64_t>(0, position_.step_in_epoch - 1) / view_.steps_per_epoch;
  position_.epoch += epochs;
  position_.step_in_epoch -= epochs * view_.steps_per_epoch;
}

// Callbacks run on the first replica of every process: their group is that of those.
std::unique_ptr<collective::Group> FitLoop::form_workers_group(
    const parallel::Strategy& strategy) const {
  const parallel::Replica& replica = trainer_.replica();
  if (strategy.local_replicas() == 1 || replica.local != 0) return nullptr;
  std::vector<int> firsts;
  for (int rank = 0; rank < replica.size; rank += strategy.local_replicas()) firsts.push_back(rank);
  return replica.group->subgroup(firsts);
}

FitResult FitLoop::run() {
  try {
    while (!is_finished()) {
      if (elastic_)
        run_stage_or_recover();
      else
        run_stage();
    }
  } catch (...) {
    for (const auto& callback : callbacks_) callback->on_failure(view_);
    throw;
  }
  result_.step = position_.step;
  result_.seconds = seconds_in(view_.elapsed);
  result_.samples_per_second =
      static_cast<double>(view_.samples_trained) / std::max(result_.seconds, 1e-9);
  result_.communication_share = view_.communication_share;
  result_.stopped = view_.stop_reason_;
  result_.weights = view_.weights;
  return result_;
}

// Each stage says what comes next as its last deed: before that, it can be done again.
void FitLoop::run_stage() {
  switch (position_.next) {
    case Stage::train_begin:
      if (elastic_) elastic_->begin_ledger(position_.step);
      call(&Callback::on_train_begin);
      position_.next =
          stopped_before_ || view_.stopping() || is_over() ? Stage::train_end : Stage::epoch_begin;
      if (position_.next == Stage::train_end) say_nothing_is_left();
      return;
    case Stage::epoch_begin:
      return begin_epoch();
    case Stage::step:
      return run_step();
    case Stage::step_end:
      if (validation_is_due()) {
        trainer_.exchange().take_buffers_of_first();
        view_.logs.merge(validate());
      }
      call(&Callback::on_step_end);
      catch_up();
      position_.next = after_step();
      return;
    case Stage::epoch_end:
      return end_epoch();
    case Stage::train_end:
      return end_training();
    case Stage::over:
      return;
  }
}

// Not at the end of an epoch, which validates anyway.
bool FitLoop::validation_is_due() const {
  return options_.validate_every > 0 && position_.step % options_.validate_every == 0 &&
         position_.step_in_epoch < view_.steps_per_epoch && trainer_.exchange().validates();
}

bool FitLoop::is_over() const {
  return position_.stop || position_.epoch >= options_.epochs ||
         (options_.max_steps > 0 && position_.step >= options_.max_steps);
}

void FitLoop::say_nothing_is_left() const {
  if (!trainer_.replica().is_first() || options_.epochs == 0) return;
  const std::string why = view_.stopping()
                              ? fmt::format("training was stopped: {}", view_.stop_reason())
                          : position_.epoch >= options_.epochs
                              ? fmt::format("{} of {} epochs are done; raise epochs to go on",
                                            position_.epoch, options_.epochs)
                              : fmt::format("{} of {} steps are done; raise max_steps to go on",
                                            position_.step, options_.max_steps);
  log::info("nothing left to do at step {}: {}", position_.step, why);
}

Stage FitLoop::after_step() const {
  if (position_.step_in_epoch == view_.steps_per_epoch) return Stage::epoch_end;
  return is_over() ? Stage::train_end : Stage::step;
}

void FitLoop::begin_epoch() {
  epoch_begun_ = Clock::now();
  epoch_samples_ = 0;
  show_position();
  call(&Callback::on_epoch_begin);
  catch_up();
  position_.next = after_step();
}

// Past steps that the others made without this replica: what it did for them would come too late
// again. Up to the end of the epoch, so that every epoch that was begun is ended.
bool FitLoop::catch_up() {
  const std::int64_t behind =
      std::min(steps_done_ - position_.step, view_.steps_per_epoch - position_.step_in_epoch);
  if (behind <= 0) return false;
  position_.step += behind;
  position_.step_in_epoch += behind;
  show_position();
  return true;
}

// A loader that goes on where the last step ended, or a new one: for another epoch, for other
// shards, for a step that is done again.
Loader& FitLoop::loader() {
  const collective::ShardRange own = trainer_.exchange().own_shards();
  const LoaderPlace wanted{position_.epoch, position_.step, own.first, own.count};
  if (!loader_ || loader_place_ != wanted) {
    loader_.reset();
    loader_ = load_epoch();
    loader_place_ = wanted;
  }
  ++loader_place_.step;
  return *loader_;
}

// The batches that are left of this epoch, own shard by own shard.
std::unique_ptr<Loader> FitLoop::load_epoch() const {
  auto epoch = std::make_shared<const EpochPlan>(plan_, position_.epoch);
  std::int64_t first = position_.step_in_epoch;
  const collective::ShardRange own = trainer_.exchange().own_shards();
  std::int64_t shards = own.count;
  std::int64_t first_shard = own.first;
  return std::make_unique<Loader>(
      data_, (view_.steps_per_epoch - first) * shards,
      [=](std::int64_t number) {
        auto indices = epoch->indices(first + number / shards, first_shard + number % shards);
        return std::vector<std::int64_t>(indices.begin(), indices.end());
      },
      DrawKey{.seed = trainer_options_.seed, .epoch = position_.epoch},
      PrefetchOptions{.depth = options_.prefetch});
}

void FitLoop::run_step() {
  const Range batch = plan_.batch(position_.step_in_epoch);
  const collective::ShardRange own = trainer_.exchange().own_shards();
  const StepPlace place{
      .epoch = position_.epoch,
      .step = position_.step,
      .first = batch.begin,
      .samples = batch.size(),
      .own_samples =
          plan_.positions(position_.step_in_epoch, {own.first, own.first + own.count}).size()};
  for (const auto& callback : callbacks_) callback->on_step_begin(view_);
  Loader& batches = loader();
  Sums sums = trainer_.step(place, [&] {
    membership::FaultPoints::of_this_process().reach("load", place.step);
    return batches.next().value();
  });
  steps_done_ = trainer_.exchange().steps_done(place);
  position_.sums.add(sums);
  ++position_.step;
  ++position_.step_in_epoch;
  view_.samples_trained += place.samples;
  epoch_samples_ += place.samples;
  update_view(sums);
  position_.next = Stage::step_end;
}

void FitLoop::update_view(const Sums& sums) {
  auto now = Clock::now();
  view_.step = position_.step;
  view_.step_in_epoch = position_.step_in_epoch;
  view_.logs = sums.logs(trainer_options_.metrics);
  if (trainer_options_.log_gradient_norm)
    if (const double norm = trainer_.exchange().gradient_norm(); std::isfinite(norm))
      view_.logs["grad_norm"] = norm;
  view_.running = position_.sums.logs(trainer_options_.metrics);
  view_.elapsed = now - begun_;
  view_.samples_per_second =
      static_cast<double>(epoch_samples_) / std::max(seconds_in(now - epoch_begun_), 1e-9);
  view_.communication_share = seconds_in(trainer_.exchange().waited() - waited_before_) /
                              std::max(seconds_in(now - begun_), 1e-9);
}

void FitLoop::end_epoch() {
  loader_.reset();
  Exchange& exchange = trainer_.exchange();
  exchange.take_buffers_of_first();
  Logs logs = position_.sums.logs(trainer_options_.metrics);
  if (options_.validation && exchange.validates()) logs.merge(validate());
  logs["lr"] = trainer_.learning_rate().get();
  view_.validated_elsewhere_ = options_.validation && !exchange.validates();
  view_.exact_.clear();
  for (const auto& [name, value] : logs) view_.exact_.insert(name);
  exchange.add_logs(logs);
  view_.logs = std::move(logs);
  view_.elapsed = Clock::now() - begun_;
  // A checkpoint made by a callback goes on with the next epoch.
  ++position_.epoch;
  position_.step_in_epoch = 0;
  position_.sums = Sums(trainer_options_.metrics.size());
  call(&Callback::on_epoch_end);
  result_.history.push_back(view_.logs);
  position_.next = is_over() ? Stage::train_end : Stage::epoch_begin;
}

void FitLoop::end_training() {
  trainer_.exchange().settle();
  view_.elapsed = Clock::now() - begun_;
  view_.weights = fingerprint(trainer_.model().module());
  call(&Callback::on_train_end);
  position_.next = Stage::over;
}

Logs FitLoop::validate() {
  std::int64_t batch = options_.validation_batch_size > 0 ? options_.validation_batch_size
                                                          : trainer_options_.batch_size;
  return trainer_.evaluate(*options_.validation, batch, options_.fast_dev_run ? 1 : 0)
      .logs(trainer_options_.metrics, "val_");
}

// Lets the callbacks of this process handle an event, then all replicas of the job follow what any
// worker's asked for: to stop, to take worker 0's values. The learning rate is the own process's.
void FitLoop::call(void (Callback::*event)(FitState&)) {
  const parallel::Replica& replica = trainer_.replica();
  if (replica.local == 0) {
    for (const auto& callback : callbacks_) ((*callback).*event)(view_);
    control_.learning_rate = trainer_.learning_rate().get();
  }
  const auto agreed = trainer_.exchange().follow(
      {.stop = view_.stop_reason_, .broadcast = std::exchange(view_.broadcast_, false)});
  position_.stop = agreed.stop;
  constexpr const char* kElsewhere = "another worker asked for it";  // unless this one has a reason
  if (agreed.interrupted)
    view_.interrupt(kElsewhere);
  else if (agreed.stop)
    view_.stop(kElsewhere);
  if (replica.local != 0) trainer_.learning_rate().apply(control_.learning_rate);
  if (agreed.broadcast) trainer_.exchange().take_values_of_first();
}

}  // namespace cohort::train
