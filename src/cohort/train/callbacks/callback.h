#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cohort/train/callbacks/fit_state.h"

namespace cohort::train {

// When a callback is called, among those of the list.
enum class CallbackOrder { broadcast, average, learning_rate, user, writers, checkpoint, screen };

// Something that happens beside training. Writing one takes a class with one method:
//
//   struct Shout : cohort::Callback {
//     void on_epoch_end(cohort::FitState& fit) override { fmt::print("{}\n", fit.logs["loss"]); }
//   };
//
// Every worker process calls its own callbacks, on the thread of its first replica, between steps:
// the model and the optimizer are at rest. Loss and metrics are already those of all workers, the
// same everywhere. What should happen once a job (writing a file) asks fit.is_chief().
//
// Order: by order(), and within one order as given, so that metrics are averaged before anything
// reads them, and the rate is set before it is logged, however the list was written.
// In an elastic job an event may come twice with the same values, when a worker was lost while it
// was handled: state (save_state) is put back before, what was written or printed stays. A worker
// that joins later begins with on_train_begin and on_epoch_begin. Failure: an exception ends fit()
// on this worker, and with it the job.
class Callback {
 public:
  virtual ~Callback() = default;

  virtual CallbackOrder order() const { return CallbackOrder::user; }
  // Whether it may ask for something (stop, interrupt, broadcast_variables) in on_step_begin or
  // on_step_end. Where no callback of any worker may, workers do not wait for each other after a
  // step; what is asked for all the same is heeded at the epoch's end.
  virtual bool requests_in_steps() const { return true; }
  // After how many steps of the training it looks at fit.logs in on_after_update or on_step_end, or
  // makes a checkpoint there: 1: after each, 50: after steps 50, 100 ..., 0: never. On a GPU the
  // losses of other steps may be read later (FitOptions::read_every), and fit.logs is that of the
  // last step that was read.
  virtual std::int64_t reads_every() const { return 1; }

  virtual void on_train_begin(FitState&) {}
  virtual void on_epoch_begin(FitState&) {}
  virtual void on_step_begin(FitState&) {}  // what it asks for is heeded at the step's end
  // The update is made and the weights are the next step's; fit.logs: of this step. Only to be read:
  // other replicas of the process do not call it. At most once a step, also in an elastic job.
  virtual void on_after_update(FitState&) {}
  virtual void on_step_end(FitState&) {}  // fit.logs: of this step
  // Around each validation, within the step or before the end of the epoch that it belongs to; of
  // parameter servers' workers on worker 0 alone. At its end fit.logs and fit.tensors have the val_
  // values beside those of the step or the epoch.
  virtual void on_validation_begin(FitState&) {}
  virtual void on_validation_end(FitState&) {}
  virtual void on_epoch_end(FitState&) {}  // fit.logs: of the epoch, validation included
  virtual void on_train_end(FitState&) {}
  // In an elastic job workers came or went; fit.view and fit.view_reason say which and why. This
  // worker may have become the chief, or be it no longer. Must not call collectives.
  virtual void on_members_changed(FitState&) {}
  // fit() is leaving by an exception: give back what is held. Must not throw.
  virtual void on_failure(FitState&) noexcept {}

  // What must survive a restart, as JSON under a name; an empty name: nothing. Callbacks of the
  // same name are told apart by their order in the list.
  virtual std::string state_name() const { return {}; }
  virtual nlohmann::json save_state() const;
  virtual void load_state(const nlohmann::json&) {}
};

// A callback that sees, and may change, the gradients: they are reduced, averaged, and of f16
// unscaled; clipping comes after, and so bounds what is made of them. fit.model()'s parameters have
// them as grad(); fit.optimizer() is the one that is about to update, fit.phase its phase.
//
//   struct Noise : cohort::GradientCallback {
//     void on_before_update(cohort::FitState& fit) override {
//       for (auto& p : fit.model().parameters()) p.mutable_grad().mul_(0.9);
//     }
//   };
//
// Every worker is called with the same gradients and must make the same of them (draw random numbers
// from fit.step, not from a generator of the process). Where a process has several replicas, the
// gradients of worker 0's first are then given to all. All workers need the same number of such
// callbacks. Not called where a step has nothing to update by (weight 0, or f16 gradients that are
// not finite). Refused with parameter servers, which make the update themselves.
class GradientCallback : public Callback {
 public:
  virtual void on_before_update(FitState& fit) = 0;
};

// The callbacks that have state, each with the name that it is saved under: "name", and for further
// ones of that name "name#2", "name#3".
std::vector<std::pair<std::string, Callback*>> with_state(
    std::span<const std::shared_ptr<Callback>> callbacks);

}  // namespace cohort::train
