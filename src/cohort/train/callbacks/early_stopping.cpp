#include "cohort/train/callbacks/early_stopping.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {

EarlyStopping::EarlyStopping(Watch watch, std::int64_t patience)
    : monitor_(std::move(watch)), patience_(patience) {
  if (patience < 1)
    throw InvalidInput(fmt::format("patience must be at least 1 epoch, got {}", patience),
                       {.advice = "Give 1 or more."});
}

void EarlyStopping::on_train_begin(FitState& fit) {
  if (std::exchange(restored_, false)) stop_if_out_of_patience(fit);
}

void EarlyStopping::on_epoch_end(FitState& fit) {
  if (fit.is_elsewhere(monitor_.watch().name)) return;
  if (!monitor_.improved(fit.logs)) stop_if_out_of_patience(fit);
}

void EarlyStopping::stop_if_out_of_patience(FitState& fit) const {
  if (monitor_.epochs_since_best() < patience_) return;
  fit.stop(fmt::format("{} has not improved for {} epochs (best {:.6g})", monitor_.watch().name,
                       monitor_.epochs_since_best(), monitor_.best()));
}

std::string EarlyStopping::state_name() const { return "early_stopping/" + monitor_.watch().name; }
nlohmann::json EarlyStopping::save_state() const { return monitor_.save(); }
void EarlyStopping::load_state(const nlohmann::json& state) {
  monitor_.load(state);
  restored_ = true;
}

}  // namespace cohort::train
