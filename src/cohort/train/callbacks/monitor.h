#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cohort/train/model/metric.h"

namespace cohort::train {

// Which number of an epoch's logs is watched, and which way is better.
struct Watch {
  enum class Better { by_name, smaller, larger };  // by_name: as larger_is_better()
  std::string name = "val_loss";
  Better better = Better::by_name;
  double min_delta = 0;  // less than this is no improvement
};

// Whether a word of the name (between underscores) is accuracy, auc, f1, precision or recall.
bool larger_is_better(const std::string& name);

// The best value so far and how long ago it was. Thread-compatible.
class Monitor {
 public:
  explicit Monitor(Watch watch);

  // True when this epoch's value is the best so far. InvalidInput, which lists the names that there
  // are, when the watched one is missing.
  bool improved(const Logs& logs);

  const Watch& watch() const { return watch_; }
  double best() const { return best_; }
  std::int64_t epochs_since_best() const { return since_best_; }
  void reset_history() { since_best_ = 0; }  // count from here again

  nlohmann::json save() const;
  void load(const nlohmann::json& state);

 private:
  Watch watch_;
  bool larger_;
  double best_;
  std::int64_t since_best_ = 0;
};

}  // namespace cohort::train
