#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "cohort/train/data/batch_maker.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/prefetch.h"

namespace cohort::train {

// Batches of a data set in its own order, as evaluation and prediction see them: on the CPU made when
// they are asked for, for a GPU ahead, by a thread. Confined to one thread. `data` must outlive it.
class BatchesInOrder {
 public:
  // The batches `which` of all that `data` has in this size.
  BatchesInOrder(const SampleSource& data, std::int64_t batch_size, Range which,
                 torch::Device device, bool channels_last);

  AnyBatch next();  // as many times as there are batches in `which`

 private:
  Prefetch<MadeBatch> made_;
};

}  // namespace cohort::train
