// What FitLoop does where replicas come and go: a stage that broke off is done again from the state
// before it, and whoever is behind takes that state from another.
#include <nlohmann/json.hpp>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/train/checkpoint/training_state.h"
#include "cohort/train/elastic_exchange.h"
#include "cohort/train/fit_loop.h"
#include "cohort/train/resume.h"

namespace cohort::train {

namespace {

constexpr int kMostFruitlessChanges = 9;

nlohmann::json states_of(std::span<const std::shared_ptr<Callback>> callbacks) {
  nlohmann::json states = nlohmann::json::object();
  for (const auto& [name, callback] : with_state(callbacks)) states[name] = callback->save_state();
  return states;
}

void put_back(std::span<const std::shared_ptr<Callback>> callbacks, const nlohmann::json& states) {
  for (const auto& [name, callback] : with_state(callbacks))
    if (states.contains(name)) callback->load_state(states.at(name));
}

}  // namespace

bool FitLoop::is_finished() {
  if (position_.next != Stage::over) return false;
  if (!elastic_) return true;
  bool everywhere = false;
  try {
    everywhere = elastic_->finish(stage_);
  } catch (const Error& error) {
    if (!elastic_->survives(error)) throw;
    change_members(error.what());
    return false;
  }
  if (!everywhere) change_members("");
  return everywhere;
}

void FitLoop::run_stage_or_recover() {
  const Position before = position_;
  const bool stepping = before.next == Stage::step;
  const nlohmann::json callbacks = stepping ? nlohmann::json() : states_of(callbacks_);
  try {
    if (!stepping) elastic_->complete_transfer();
    run_stage();
  } catch (const Error& error) {
    if (!elastic_->survives(error)) throw;
    position_ = before;
    show_position();
    if (!stepping) put_back(callbacks_, callbacks);
    change_members(error.what());
    return;
  }
  commit_stage(stepping);
  if (elastic_->change_is_due() && position_.next != Stage::over) change_members("");
}

void FitLoop::commit_stage(bool stepped) {
  ++stage_;
  behind_.reset();
  if (stage_ == 0 && begun_hook_) begun_hook_();
  elastic_->commit(stage_, position_.step, view_.samples_per_second, stepped);
  show_replica();
}

// The same members that fail again and again have a reason that no change of members mends.
void FitLoop::expect_progress(const std::string& why) {
  std::vector<membership::ViewMember> members = elastic_->view().members;
  for (auto& member : members) member.stage = stage_;
  fruitless_changes_ = members == failing_members_ ? fruitless_changes_ + 1 : 0;
  failing_members_ = std::move(members);
  if (fruitless_changes_ == kMostFruitlessChanges)
    throw Error(fmt::format("the same {} workers failed {} times in a row at step {}: {}",
                            failing_members_.size(), fruitless_changes_ + 1, position_.step, why));
}

void FitLoop::change_members(const std::string& why) {
  loader_.reset();
  if (!why.empty()) expect_progress(why);
  for (std::string reason = why;;) {
    if (behind_ && elastic_->awaits_state()) {  // the copy did not come through
      stage_ = behind_->stage;
      if (stage_ != membership::kNoState) adopt(behind_->image);
    }
    behind_.reset();
    elastic_->change(stage_, reason);
    trainer_.set_replica(elastic_->replica());
    if (elastic_->view().stage() == membership::kNoState) {
      if (stage_ == membership::kNoState) throw BeginAgain();
      throw Error("everybody who had the state of this training is gone",
                  {.advice = "Start this worker again: training begins from its last checkpoint."});
    }
    try {
      if (elastic_->is_behind()) {
        auto before = std::make_unique<Behind>();
        if (stage_ != membership::kNoState)
          *before = {.stage = stage_, .image = image(view_.checkpoint().state)};
        behind_ = std::move(before);
        take_state(elastic_->receive());
      } else if (elastic_->is_donor()) {
        give_state();
      }
      break;
    } catch (const Error& error) {
      if (!elastic_->survives(error)) throw;
      reason = error.what();
    }
  }
  show_replica();
  show_view();
  for (const auto& callback : callbacks_) callback->on_members_changed(view_);
}

void FitLoop::show_view() {
  view_.view = elastic_->view().number;
  view_.view_reason = elastic_->view().reason;
  view_.step_is_redone = elastic_->redoes_step();
}

void FitLoop::join(const nlohmann::json& image) {
  behind_ = std::make_unique<Behind>();
  take_state(image);
  view_.joined = true;
  for (const auto& callback : callbacks_) callback->on_train_begin(view_);
  epoch_begun_ = std::chrono::steady_clock::now();
  if (position_.next == Stage::step || position_.next == Stage::step_end)
    for (const auto& callback : callbacks_) callback->on_epoch_begin(view_);
  view_.broadcast_ = false;  // everything is worker 0's already
  trainer_.learning_rate().apply(rate_told_);
  log::info("this worker joined at step {}", position_.step);
}

// What another replica needs besides the tensors to go on exactly here.
nlohmann::json FitLoop::image(const TrainingState& state) const {
  return {{"stage", stage_},
          {"next", static_cast<int>(position_.next)},
          {"stop", position_.stop},
          {"stop_reason", view_.stop_reason_},
          {"state", to_json(state)},
          {"learning_rate", trainer_.learning_rate().get()},
          {"logs", view_.logs},
          {"running", view_.running},
          {"weights", view_.weights},
          {"history", result_.history},
          {"samples_trained", view_.samples_trained},
          {"record", elastic_->last_record()}};
}

void FitLoop::adopt(const nlohmann::json& image) {
  position_ = restore_state(trainer_, training_state_from(image.at("state")), callbacks_,
                            trainer_options_.metrics.size());
  position_.next = static_cast<Stage>(image.at("next").get<int>());
  position_.stop = image.at("stop").get<bool>();
  image.at("stage").get_to(stage_);
  image.at("stop_reason").get_to(view_.stop_reason_);
  image.at("logs").get_to(view_.logs);
  image.at("running").get_to(view_.running);
  image.at("weights").get_to(view_.weights);
  image.at("history").get_to(result_.history);
  image.at("samples_trained").get_to(view_.samples_trained);
  elastic_->set_last_record(image.at("record"));
  image.at("learning_rate").get_to(rate_told_);
  trainer_.learning_rate().apply(rate_told_);
  steps_done_ = position_.step;
  show_position();
}

void FitLoop::take_state(const nlohmann::json& image) {
  elastic_->on_state([this, state = training_state_from(image.at("state"))](NamedTensors tensors) {
    restore_tensors(trainer_, {.state = state, .tensors = std::move(tensors)});
    trainer_.learning_rate().apply(rate_told_);
  });
  adopt(image);
}

void FitLoop::give_state() {
  Checkpoint checkpoint = view_.checkpoint();
  // Forward changes buffers; parameters and the optimizer's tensors stay until the update.
  std::set<const void*> buffers;
  for (const torch::Tensor& buffer : trainer_.model().module().buffers())
    buffers.insert(buffer.data_ptr());
  for (auto& [name, tensor] : checkpoint.tensors)
    if (buffers.contains(tensor.data_ptr())) tensor = tensor.clone();
  elastic_->give(image(checkpoint.state), std::move(checkpoint.tensors));
}

}  // namespace cohort::train
