#include "cohort/train/loop/elastic_fit.h"

#include <set>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/training_state.h"
#include "cohort/train/loop/resume.h"

namespace cohort::train {

namespace {

nlohmann::json states_of(std::span<const std::shared_ptr<Callback>> callbacks) {
  nlohmann::json states = nlohmann::json::object();
  for (const auto& [name, callback] : with_state(callbacks)) states[name] = callback->save_state();
  return states;
}

void restore_states(std::span<const std::shared_ptr<Callback>> callbacks,
                    const nlohmann::json& states) {
  for (const auto& [name, callback] : with_state(callbacks))
    if (states.contains(name)) callback->load_state(states.at(name));
}

}  // namespace

void ElasticFit::begin_view() {
  sync_.begin_view();
  const bool has_state = sync_.view().stage() != membership::kNoState;
  if (!has_state && stage_ != membership::kNoState)
    throw Error("all workers that had the state of this training are gone",
                {.advice = "Start this worker again: training begins from its last checkpoint."});
  if (!has_state && loop_) {  // the rest begins again
    loop_->tell_failure();
    loop_.reset();
  }
  if (!loop_) return begin_or_join();
  if (sync_.is_behind()) {
    PendingTransfer pending;
    if (stage_ != membership::kNoState)
      pending = {.stage = stage_, .snapshot = snapshot(loop_->callback_state().checkpoint().state)};
    pending_ = std::move(pending);
    take_state(sync_.receive_state());
  } else if (sync_.transfer().is_giver()) {
    give_state();
  }
  loop_->set_group();
  show_view();
  loop_->call_callbacks(&Callback::on_members_changed);
}

void ElasticFit::begin_or_join() {
  if (!sync_.is_behind()) {
    loop_ = parts_.begin();
    show_view();
    sync_.ledger().set_plan(ledger_plan());
    sync_.begin_ledger(loop_->position().step);
    return;
  }
  const nlohmann::json told = sync_.receive_state();
  loop_ = parts_.join(told.at("state").at("virtual_shards").get<int>());
  show_view();
  sync_.ledger().set_plan(ledger_plan());
  pending_.emplace();
  take_state(told);
  loop_->join();
}

bool ElasticFit::train() {
  while (loop_->position().next != FitStage::over) {
    const bool stepped = loop_->position().next == FitStage::step;
    run_stage();
    // A change waits for the end of the step, callbacks included.
    if (!stepped && sync_.change_is_due() && loop_->position().next != FitStage::over) return false;
  }
  sync_.complete_transfer();
  sync_.ledger().sync();
  return true;
}

void ElasticFit::run_stage() {
  const bool stepping = loop_->position().next == FitStage::step;
  before_.emplace(
      BeforeStage{.position = loop_->position(),
                  .callbacks = stepping ? nlohmann::json() : states_of(loop_->inputs().callbacks)});
  if (!stepping) sync_.complete_transfer();
  loop_->run_stage();
  before_.reset();
  commit_stage(stepping);
}

void ElasticFit::commit_stage(bool stepped) {
  ++stage_;
  pending_.reset();
  if (stage_ == 0 && parts_.on_begun) parts_.on_begun();
  sync_.commit(stage_, loop_->position().step, loop_->callback_state().samples_per_second, stepped);
  loop_->set_group();
}

void ElasticFit::roll_back() {
  if (before_) {
    loop_->go_back(before_->position);
    if (!before_->callbacks.is_null())
      restore_states(loop_->inputs().callbacks, before_->callbacks);
    before_.reset();
  }
  if (pending_ && sync_.transfer().is_awaited()) {  // the copy did not come through
    stage_ = pending_->stage;
    if (stage_ != membership::kNoState) apply_snapshot(pending_->snapshot);
  }
  pending_.reset();
}

void ElasticFit::show_view() {
  FitState& state = loop_->callback_state();
  state.view = sync_.view().number;
  state.view_reason = sync_.view().reason;
  state.step_is_redone = sync_.redoes_step();
}

membership::LedgerPlan ElasticFit::ledger_plan() const {
  const FitInputs& inputs = loop_->inputs();
  return {.samples = inputs.data->size(),
          .batch = inputs.trainer_options.batch_size,
          .shards = loop_->trainer().shards(),
          .seed = inputs.trainer_options.seed,
          .shuffle = inputs.options.shuffle,
          .steps_per_epoch = loop_->callback_state().steps_per_epoch};
}

nlohmann::json ElasticFit::snapshot(const TrainingState& state) const {
  nlohmann::json snapshot = loop_->snapshot(state);
  snapshot["stage"] = stage_;
  snapshot["record"] = sync_.ledger().last_record();
  return snapshot;
}

void ElasticFit::apply_snapshot(const nlohmann::json& snapshot) {
  loop_->apply_snapshot(snapshot);
  snapshot.at("stage").get_to(stage_);
  sync_.ledger().set_last_record(snapshot.at("record"), sync_.is_first());
}

// `told` is there; the tensors are put into their places when they are.
void ElasticFit::take_state(const nlohmann::json& told) {
  sync_.transfer().on_tensors(
      [this, state = training_state_from(told.at("state")),
       rates = told.at("learning_rates").get<std::vector<double>>()](TensorMap tensors) {
        restore_tensors(loop_->trainer(), {.state = state, .tensors = std::move(tensors)});
        loop_->trainer().learning_rate().apply(rates);
      });
  apply_snapshot(told);
}

void ElasticFit::give_state() {
  Checkpoint checkpoint = loop_->callback_state().checkpoint();
  // Forward changes buffers; parameters and the optimizer's tensors stay until the update.
  std::set<const void*> buffers;
  for (const torch::Tensor& buffer : loop_->trainer().model().module().buffers())
    buffers.insert(buffer.data_ptr());
  for (auto& [name, tensor] : checkpoint.tensors)
    if (buffers.contains(tensor.data_ptr())) tensor = tensor.clone();
  sync_.give_state(
      {.values = snapshot(checkpoint.state), .tensors = std::move(checkpoint.tensors)});
}

}  // namespace cohort::train
