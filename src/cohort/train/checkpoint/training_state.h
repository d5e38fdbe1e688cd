#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace cohort::train {

// Where training stands, but for the tensors. A value.
//
// The JSON members must hold finite numbers and UTF-8 text only: JSON has no NaN and no infinity,
// so a callback that has seen no best value yet leaves the key out.
struct TrainingState {
  std::int64_t step = 0;              // updates made since training began
  std::int64_t epoch = 0;             // the epoch under way, from 0
  std::int64_t steps_in_epoch = 0;    // updates made in it
  std::int64_t samples_in_epoch = 0;  // samples of it that entered an update
  std::uint64_t seed = 0;
  std::int64_t virtual_shards = 1;
  std::int64_t global_batch_size = 0;
  std::map<std::string, std::string> config;             // what the program was started with
  nlohmann::json callbacks = nlohmann::json::object();   // each callback's state, by name
  nlohmann::json optimizers = nlohmann::json::object();  // OptimizerState::scalars, by name
  nlohmann::json extra = nlohmann::json::object();       // whatever the program adds
  // Set when saved.
  std::string cohort_version;
  std::string libtorch_version;
  std::string saved_at;
};

// InvalidInput names the key that holds what JSON cannot, or a negative count.
nlohmann::json to_json(const TrainingState& state);
// InvalidInput says which member is missing or of the wrong type; unknown ones are left alone.
TrainingState training_state_from(const nlohmann::json& value);

}  // namespace cohort::train
