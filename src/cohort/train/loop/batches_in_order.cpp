#include "cohort/train/loop/batches_in_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {

BatchesInOrder::BatchesInOrder(const SampleSource& data, std::int64_t batch_size, Range which,
                               torch::Device device, bool channels_last)
    : made_(which.size(),
            [maker = batch_maker_for(SourcePtr(SourcePtr(), &data),
                                     {.device = device, .channels_last = channels_last}),
             batch_size, which](std::int64_t number) {
              const std::int64_t first = (which.begin + number) * batch_size;
              std::vector<std::int64_t> indices(
                  static_cast<std::size_t>(std::min(batch_size, maker->source().size() - first)));
              std::iota(indices.begin(), indices.end(), first);
              return maker->make(indices, {});
            },
            {.depth = 2, .threads = device.is_cpu() ? 0 : 1}) {}

AnyBatch BatchesInOrder::next() {
  std::optional<MadeBatch> made = made_.next();
  COHORT_CHECK(made.has_value(), "more batches are asked for than there are");
  return made->take();
}

}  // namespace cohort::train
