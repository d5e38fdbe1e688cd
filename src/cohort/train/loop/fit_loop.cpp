#include "cohort/train/loop/fit_loop.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/loop/resume.h"

namespace cohort::train {
namespace {

BatchPlan plan_of(const FitInputs& inputs, int shards) {
  return BatchPlan({.samples = inputs.data->size(),
                    .global_batch = inputs.trainer_options.batch_size,
                    .shards = shards,
                    .seed = inputs.trainer_options.seed,
                    .shuffle = inputs.options.shuffle && !inputs.data->is_sequential()});
}

}  // namespace

FitLoop::FitLoop(ReplicaTrainer& trainer, FitInputs inputs, Position position,
                 std::int64_t steps_done)
    : trainer_(trainer),
      inputs_(std::move(inputs)),
      position_(std::move(position)),
      loader_(batch_maker_for(inputs_.data, {.device = trainer.replica().device,
                                             .channels_last = inputs_.trainer_options.channels_last,
                                             .cache_bytes = inputs_.options.device_cache_bytes}),
              plan_of(inputs_, trainer.shards()), inputs_.trainer_options.seed,
              {.depth = std::max(inputs_.options.prefetch, inputs_.options.loader_threads),
               .threads = inputs_.options.loader_threads}),
      clock_(waited()),
      workers_group_(form_workers_group()) {
  position_.next = FitStage::train_begin;
  position_.stop = false;
  FitState& state = callback_state_;
  const FitOptions& options = inputs_.options;
  state.steps_per_epoch =
      options.steps_per_epoch > 0 ? options.steps_per_epoch : loader_.plan().steps_per_epoch();
  go_to(steps_done);
  if (options.fast_dev_run) state.steps_per_epoch = position_.step_in_epoch + 1;
  if (position_.step_in_epoch > state.steps_per_epoch)
    throw InvalidInput(
        fmt::format("steps_per_epoch must be at least {}, where training stands, got {}",
                    position_.step_in_epoch, state.steps_per_epoch),
        {.advice = "Go on with the steps_per_epoch that it was begun with."});
  init_callback_state();
  trainer_.begin_reading(options.read_every, inputs_.data->has_one_shape(),
                         trainer_.replica().is_first());
  read_every_ = reading_periods();
  show_position();
  set_group();
  if (inputs_.changes_gradients)
    trainer_.set_before_update([this](std::size_t phase) { before_update(phase); });
}

FitLoop::~FitLoop() {
  trainer_.set_before_update({});
  trainer_.end_reading();
}

void FitLoop::init_callback_state() {
  FitState& state = callback_state_;
  state.epochs = inputs_.options.epochs;
  state.max_steps = inputs_.options.max_steps;
  state.samples = inputs_.data->size();
  state.batch_size = inputs_.trainer_options.batch_size;
  state.shards = trainer_.shards();
  state.fast_dev_run = inputs_.options.fast_dev_run;
  state.strategy_ = &inputs_.strategy;
  state.module_ = &trainer_.model().module();
  state.optimizer_ = &trainer_.optimizer();
  state.rate_ = &trainer_.learning_rate();
  state.make_checkpoint_ = [this] { return make_own_checkpoint(); };
}

Checkpoint FitLoop::make_own_checkpoint() {
  Checkpoint checkpoint =
      make_checkpoint(trainer_, position_, inputs_.trainer_options, inputs_.callbacks);
  if (const std::string job = inputs_.strategy.job(); !job.empty())
    checkpoint.state.extra[kJob] = job;
  if ((position_.stop || stopped_before_) && !callback_state_.requests_.interrupts())
    checkpoint.state.extra[kStopReason] = callback_state_.stop_reason();
  return checkpoint;
}

void FitLoop::stop_as_before(const std::string& why) {
  stopped_before_ = true;
  callback_state_.requests_.stop = why;
}

void FitLoop::show_position() {
  callback_state_.epoch = position_.epoch;
  callback_state_.step = position_.step;
  callback_state_.step_in_epoch = position_.step_in_epoch;
}

void FitLoop::set_group() {
  callback_state_.workers_ = workers_group_ ? workers_group_.get() : trainer_.replica().group;
  callback_state_.gradients_ = &trainer_.sync().steps->gradients();
}

// Past steps that this worker has behind it already. At an epoch's last step it stays in that
// epoch, whose end no worker may have seen.
void FitLoop::go_to(std::int64_t step) {
  if (step == position_.step) return;
  position_.step_in_epoch += step - position_.step;
  position_.step = step;
  const std::int64_t epochs =
      std::max<std::int64_t>(0, position_.step_in_epoch - 1) / callback_state_.steps_per_epoch;
  position_.epoch += epochs;
  position_.step_in_epoch -= epochs * callback_state_.steps_per_epoch;
}

// Callbacks run on the first replica of every process: their group is that of those.
std::unique_ptr<collective::Group> FitLoop::form_workers_group() const {
  const parallel::Replica& replica = trainer_.replica();
  const int local = inputs_.strategy.local_replicas();
  if (local == 1 || replica.local != 0) return nullptr;
  std::vector<int> firsts;
  for (int rank = 0; rank < replica.size; rank += local) firsts.push_back(rank);
  return replica.group->subgroup(firsts);
}

FitResult FitLoop::run() {
  try {
    while (position_.next != FitStage::over) run_stage();
  } catch (...) {
    tell_failure();
    throw;
  }
  return result();
}

void FitLoop::tell_failure() noexcept {
  for (const auto& callback : inputs_.callbacks) callback->on_failure(callback_state_);
}

FitResult FitLoop::result() const {
  const FitState& state = callback_state_;
  return {.history = history_,
          .step = position_.step,
          .seconds = std::chrono::duration<double>(state.elapsed).count(),
          .samples_per_second =
              static_cast<double>(state.samples_trained) / FitClock::seconds(state.elapsed),
          .communication_share = state.communication_share,
          .data_share = std::chrono::duration<double>(state.waited_for_data).count() /
                        FitClock::seconds(state.elapsed),
          .stopped = state.stop_reason(),
          .weights = state.weights};
}

// Each stage says what comes next as its last deed: before that, it can be done again.
void FitLoop::run_stage() {
  switch (position_.next) {
    case FitStage::train_begin:
      return begin_training();
    case FitStage::epoch_begin:
      return begin_epoch();
    case FitStage::step:
      return run_step();
    case FitStage::step_end:
      return end_step();
    case FitStage::epoch_end:
      return end_epoch();
    case FitStage::train_end:
      return end_training();
    case FitStage::over:
      return;
  }
}

void FitLoop::go_back(const Position& before) {
  loader_.reset();
  position_ = before;
  show_position();
}

void FitLoop::begin_training() {
  call(&Callback::on_train_begin);
  const bool ends = stopped_before_ || callback_state_.stopping() || is_over();
  position_.next = ends ? FitStage::train_end : FitStage::epoch_begin;
  if (ends) say_nothing_is_left();
}

// Not at the end of an epoch, which validates anyway.
bool FitLoop::validation_is_due() const {
  const std::int64_t every = inputs_.options.validate_every;
  return every > 0 && position_.step % every == 0 &&
         position_.step_in_epoch < callback_state_.steps_per_epoch &&
         trainer_.sync().evaluation->validates();
}

bool FitLoop::is_over() const {
  const FitOptions& options = inputs_.options;
  return position_.stop || position_.epoch >= options.epochs ||
         (options.max_steps > 0 && position_.step >= options.max_steps);
}

void FitLoop::say_nothing_is_left() const {
  const FitOptions& options = inputs_.options;
  if (!trainer_.replica().is_first() || options.epochs == 0) return;
  const std::string why = callback_state_.stopping() ? fmt::format("training was stopped: {}",
                                                                   callback_state_.stop_reason())
                          : position_.epoch >= options.epochs
                              ? fmt::format("{} of {} epochs are done; raise epochs to go on",
                                            position_.epoch, options.epochs)
                              : fmt::format("{} of {} steps are done; raise max_steps to go on",
                                            position_.step, options.max_steps);
  log::info("nothing left to do at step {}: {}", position_.step, why);
}

FitStage FitLoop::after_step() const {
  if (position_.step_in_epoch == callback_state_.steps_per_epoch) return FitStage::epoch_end;
  return is_over() ? FitStage::train_end : FitStage::step;
}

void FitLoop::begin_epoch() {
  clock_.begin_epoch(loader_.waited());
  show_position();
  call(&Callback::on_epoch_begin);
  catch_up();
  position_.next = after_step();
}

// Past steps that the others made without this replica: what it did for them would come too late
// again. Up to the end of the epoch, so that every epoch that was begun is ended.
void FitLoop::catch_up() {
  const std::int64_t behind = std::min(steps_done_ - position_.step,
                                       callback_state_.steps_per_epoch - position_.step_in_epoch);
  if (behind <= 0) return;
  position_.step += behind;
  position_.step_in_epoch += behind;
  show_position();
}

void FitLoop::run_step() {
  const collective::ShardRange own = trainer_.sync().steps->own_shards();
  const BatchPlan& plan = loader_.plan();
  const Range batch = plan.batch(position_.step_in_epoch);
  const bool several = inputs_.strategy.local_replicas() > 1;  // they learn the rate when all agree
  const StepInfo info{
      .epoch = position_.epoch,
      .step = position_.step,
      .first = batch.begin,
      .samples = batch.size(),
      .own_samples =
          plan.positions(position_.step_in_epoch, {own.first, own.first + own.count}).size(),
      .may_request = several || std::any_of(inputs_.callbacks.begin(), inputs_.callbacks.end(),
                                            [](const auto& callback) {
                                              return callback->requests_in_steps();
                                            })};
  call_callbacks(&Callback::on_step_begin);
  Loader& batches = loader_.at(position_, own, callback_state_.steps_per_epoch);
  const std::vector<StepResult> results = trainer_.step(info, position_.weight_units, [&] {
    membership::FaultPoints::of_this_process().reach("load", info.step);
    return batches.next().value();
  });
  ++position_.step;
  ++position_.step_in_epoch;
  steps_done_ = position_.step;
  callback_state_.samples_trained += info.samples;
  clock_.add_step(info.samples);
  read(results);
  if (must_read()) read_rest();
  callback_state_.step = position_.step;
  callback_state_.step_in_epoch = position_.step_in_epoch;
  clock_.show(callback_state_, waited(), loader_.waited());
  call_callbacks(&Callback::on_after_update);
  position_.next = FitStage::step_end;
}

// What steps have measured joins the epoch's sums, in their order.
void FitLoop::read(const std::vector<StepResult>& steps) {
  for (const StepResult& step : steps) {
    steps_done_ = std::max(steps_done_, step.steps_done);
    position_.sums.add(step.sums);
    position_.may_request = step.may_request;
  }
  if (!steps.empty()) show_step(steps.back());
}

// After the step that was just made: a callback looks at it, or something follows for which the
// epoch's sums must be complete.
bool FitLoop::must_read() const {
  return validation_is_due() || is_over() ||
         position_.step_in_epoch == callback_state_.steps_per_epoch ||
         std::any_of(read_every_.begin(), read_every_.end(),
                     [&](std::int64_t every) { return position_.step % every == 0; });
}

// Of all callbacks of all replicas: steps are read together. Collective where there are several.
std::vector<std::int64_t> FitLoop::reading_periods() const {
  std::set<std::int64_t> periods;
  for (const auto& callback : inputs_.callbacks) periods.insert(callback->reads_every());
  const parallel::Replica& replica = trainer_.replica();
  if (replica.size > 1 && trainer_.sync().steps->can_defer()) {
    std::vector<std::string> mine;
    for (const std::int64_t period : periods) mine.push_back(std::to_string(period));
    for (const std::string& text : parallel::gather_texts(*replica.group, cohort::join(mine, " ")))
      for (const std::string& word : split(text, ' '))
        if (const auto period = parse_unsigned(word))
          periods.insert(static_cast<std::int64_t>(*period));
  }
  periods.erase(0);
  return {periods.begin(), periods.end()};
}

void FitLoop::show_step(const StepResult& step) {
  const TrainerOptions& options = inputs_.trainer_options;
  callback_state_.logs = trainer_.logs(step.sums);
  if (options.log_gradient_norm && std::isfinite(step.gradient_norm))
    callback_state_.logs["grad_norm"] = step.gradient_norm;
  callback_state_.running = trainer_.logs(position_.sums);
}

std::chrono::nanoseconds FitLoop::waited() const { return trainer_.sync().waited(); }

void FitLoop::end_step() {
  if (validation_is_due()) {
    trainer_.sync().steps->broadcast_buffers();
    validate();
  }
  call_callbacks(&Callback::on_step_end);
  if (position_.may_request) follow_requests();
  if (position_.stop) read_rest();  // a checkpoint of the end has the sums of all steps
  catch_up();
  position_.next = after_step();
}

void FitLoop::end_epoch() {
  loader_.reset();
  ReplicaSync& sync = trainer_.sync();
  sync.steps->broadcast_buffers();
  const bool validates = sync.evaluation->validates();
  Logs& logs = callback_state_.logs = trainer_.logs(position_.sums);
  logs["lr"] = trainer_.learning_rate().get();
  const std::vector<std::string> phases = trainer_.phase_names();
  for (std::size_t i = 0; i < phases.size(); ++i)
    logs["lr_" + phases[i]] = trainer_.learning_rate().of(i);
  callback_state_.tensors = position_.sums.tensors(inputs_.trainer_options.metrics);
  callback_state_.validated_elsewhere_ = inputs_.options.validation && !validates;
  callback_state_.exact_.clear();
  for (const auto& [name, value] : logs) callback_state_.exact_.insert(name);
  if (inputs_.options.validation && validates) validate();
  sync.evaluation->add_logs(logs);
  clock_.show_elapsed(callback_state_);
  // A checkpoint made by a callback goes on with the next epoch.
  ++position_.epoch;
  position_.step_in_epoch = 0;
  position_.sums = trainer_.no_sums();
  call(&Callback::on_epoch_end);
  history_.push_back(callback_state_.logs);
  position_.next = is_over() ? FitStage::train_end : FitStage::epoch_begin;
}

void FitLoop::end_training() {
  const ReplicaSync& sync = trainer_.sync();
  for (std::size_t i = 0; i < sync.phases(); ++i) sync.phase(i).finish_training();
  clock_.show_elapsed(callback_state_);
  callback_state_.weights = fingerprint(trainer_.model().module());
  call(&Callback::on_train_end);
  position_.next = FitStage::over;
}

void FitLoop::before_update(std::size_t phase) {
  FitState& state = callback_state_;
  const std::vector<std::string> names = trainer_.phase_names();
  state.phase = names.empty() ? "" : names[phase];
  state.optimizer_ = &trainer_.optimizer(phase);
  for (const auto& callback : inputs_.callbacks)
    if (auto* changes = dynamic_cast<GradientCallback*>(callback.get()))
      changes->on_before_update(state);
  state.optimizer_ = &trainer_.optimizer();
  if (inputs_.strategy.local_replicas() > 1) trainer_.broadcast_gradients(phase);
}

// The values join those of the step or the epoch.
void FitLoop::validate() {
  const FitOptions& options = inputs_.options;
  const std::int64_t batch = options.validation_batch_size > 0 ? options.validation_batch_size
                                                               : inputs_.trainer_options.batch_size;
  call_callbacks(&Callback::on_validation_begin);
  Evaluated found =
      trainer_.evaluate(*options.validation, batch, "val_", options.fast_dev_run ? 1 : 0);
  for (const auto& [name, value] : found.logs) callback_state_.exact_.insert(name);
  callback_state_.logs.merge(found.logs);
  for (auto& [name, tensor] : found.tensors) callback_state_.tensors[name] = tensor;
  call_callbacks(&Callback::on_validation_end);
}

void FitLoop::call(void (Callback::*event)(FitState&)) {
  call_callbacks(event);
  follow_requests();
}

void FitLoop::call_callbacks(void (Callback::*event)(FitState&)) {
  for (const auto& callback : inputs_.callbacks) ((*callback).*event)(callback_state_);
}

// After an event: all replicas of the job do what any worker's callbacks asked for, to stop, to take
// worker 0's values. The learning rate is the own process's.
void FitLoop::follow_requests() {
  const parallel::Replica& replica = trainer_.replica();
  if (replica.local == 0) inputs_.control.set_rates(trainer_.learning_rate().rates());
  const AgreedRequests agreed =
      trainer_.sync().agreement->agree_on_requests(callback_state_.requests_);
  callback_state_.requests_.broadcast = false;
  position_.stop = agreed.stop;
  constexpr const char* kElsewhere = "another worker asked for it";  // unless this one has a reason
  if (agreed.interrupted)
    callback_state_.interrupt(kElsewhere);
  else if (agreed.stop)
    callback_state_.stop(kElsewhere);
  if (replica.local != 0) trainer_.learning_rate().apply(inputs_.control.rates());
  if (agreed.broadcast) trainer_.broadcast_from_first();
}

nlohmann::json FitLoop::snapshot(const TrainingState& state) const {
  return {{"next", static_cast<int>(position_.next)},
          {"stop", position_.stop},
          {"may_request", position_.may_request},
          {"stop_reason", callback_state_.stop_reason()},
          {"state", to_json(state)},
          {"learning_rates", trainer_.learning_rate().rates()},
          {"logs", callback_state_.logs},
          {"running", callback_state_.running},
          {"weights", callback_state_.weights},
          {"history", history_},
          {"samples_trained", callback_state_.samples_trained}};
}

void FitLoop::apply_snapshot(const nlohmann::json& snapshot) {
  loader_.reset();
  position_ = restore_state(trainer_, training_state_from(snapshot.at("state")), inputs_.callbacks);
  position_.next = static_cast<FitStage>(snapshot.at("next").get<int>());
  position_.stop = snapshot.at("stop").get<bool>();
  position_.may_request = snapshot.at("may_request").get<bool>();
  snapshot.at("stop_reason").get_to(callback_state_.requests_.stop);
  snapshot.at("logs").get_to(callback_state_.logs);
  snapshot.at("running").get_to(callback_state_.running);
  snapshot.at("weights").get_to(callback_state_.weights);
  snapshot.at("history").get_to(history_);
  snapshot.at("samples_trained").get_to(callback_state_.samples_trained);
  trainer_.learning_rate().apply(snapshot.at("learning_rates").get<std::vector<double>>());
  steps_done_ = position_.step;
  show_position();
}

void FitLoop::join() {
  const std::vector<double> rates = trainer_.learning_rate().rates();
  callback_state_.joined = true;
  call_callbacks(&Callback::on_train_begin);
  clock_.begin_epoch(loader_.waited());
  if (position_.next == FitStage::step || position_.next == FitStage::step_end)
    call_callbacks(&Callback::on_epoch_begin);
  callback_state_.requests_.broadcast = false;  // everything is worker 0's already
  trainer_.learning_rate().apply(rates);
  log::info("this worker joined at step {}", position_.step);
}

}  // namespace cohort::train
