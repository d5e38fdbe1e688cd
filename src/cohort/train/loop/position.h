#pragma once

#include <cstdint>
#include <vector>

#include "cohort/train/model/sums.h"

namespace cohort::train {

// What a training is made of, one after the other. A stage is committed as a whole, with the last
// agreement of the replicas in it, and depends on nothing but the state before it.
enum class FitStage { train_begin, epoch_begin, step, step_end, epoch_end, train_end, over };

// Where a training stands between two stages; what a resumed one starts from.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t step = 0;
  Sums sums;  // of the epoch so far
  FitStage next = FitStage::train_begin;
  bool stop = false;                      // all replicas agreed to end
  std::vector<double> weight_units = {};  // of the next step, by phase (StepInfo); empty: 1
  bool may_request = false;  // a callback of some replica may ask for something at this step's end
};

}  // namespace cohort::train
