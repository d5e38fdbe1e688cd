#include "cohort/train/callbacks/reduce_on_plateau.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::train {

ReduceLearningRateOnPlateau::ReduceLearningRateOnPlateau(PlateauOptions options)
    : options_(std::move(options)), monitor_(options_.watch) {
  if (!(options_.factor > 0 && options_.factor < 1))
    throw InvalidInput(fmt::format("factor must be between 0 and 1, got {}", options_.factor),
                       {.advice = "Give what ReduceLearningRateOnPlateau multiplies the rate by."});
  if (options_.patience < 1)
    throw InvalidInput(fmt::format("patience must be at least 1 epoch, got {}", options_.patience),
                       {.advice = "Give the epochs without an improvement."});
}

void ReduceLearningRateOnPlateau::on_train_begin(FitState& fit) {
  fit.learning_rate().set_factor("plateau", factor_);
}

void ReduceLearningRateOnPlateau::on_epoch_end(FitState& fit) {
  if (fit.is_elsewhere(monitor_.watch().name)) return;
  if (monitor_.improved(fit.logs) || monitor_.epochs_since_best() < options_.patience) return;
  monitor_.reset_history();
  double least = options_.least_rate > 0 && fit.learning_rate().get() > 0
                     ? factor_ * options_.least_rate / fit.learning_rate().get()
                     : 0;
  factor_ = std::max(factor_ * options_.factor, std::min(least, factor_));
  fit.learning_rate().set_factor("plateau", factor_);
}

std::string ReduceLearningRateOnPlateau::state_name() const { return "plateau"; }

nlohmann::json ReduceLearningRateOnPlateau::save_state() const {
  return {{"monitor", monitor_.save()}, {"factor", factor_}};
}

void ReduceLearningRateOnPlateau::load_state(const nlohmann::json& state) {
  monitor_.load(state.at("monitor"));
  factor_ = state.at("factor").get<double>();
}

}  // namespace cohort::train
