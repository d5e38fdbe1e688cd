#include "cohort/train/loop/epoch_loader.h"

namespace cohort::train {

void EpochLoader::reset() {
  waited_before_ = waited();
  loader_.reset();
}

std::chrono::nanoseconds EpochLoader::waited() const {
  return waited_before_ + (loader_ ? loader_->waited() : std::chrono::nanoseconds(0));
}

Loader& EpochLoader::at(const Position& position, collective::ShardRange own,
                        std::int64_t steps_per_epoch) {
  const Next wanted{position.epoch, position.step, own.first, own.count};
  if (!loader_ || next_ != wanted) {
    reset();
    loader_ = load(position, own, steps_per_epoch);
    next_ = wanted;
  }
  ++next_.step;
  return *loader_;
}

// The batches that are left of this epoch, own shard by own shard.
std::unique_ptr<Loader> EpochLoader::load(const Position& position, collective::ShardRange own,
                                          std::int64_t steps_per_epoch) const {
  auto epoch = std::make_shared<const EpochPlan>(plan_, position.epoch);
  const std::int64_t first = position.step_in_epoch;
  const std::int64_t shards = own.count;
  const std::int64_t first_shard = own.first;
  return std::make_unique<Loader>(
      maker_, (steps_per_epoch - first) * shards,
      [=](std::int64_t number) {
        auto indices = epoch->indices(first + number / shards, first_shard + number % shards);
        return std::vector<std::int64_t>(indices.begin(), indices.end());
      },
      DrawKey{.seed = seed_, .epoch = position.epoch}, prefetch_);
}

}  // namespace cohort::train
