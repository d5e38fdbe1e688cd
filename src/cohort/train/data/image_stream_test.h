#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/train/data/iterable_dataset.h"

namespace cohort::train::testing {

// For tests: the samples of another data set as a stream, in an order that depends on the epoch.
class StreamOf final : public IterableDataset<Batch> {
 public:
  explicit StreamOf(DatasetPtr data, std::int64_t samples = 0)
      : IterableDataset(samples), data_(std::move(data)) {}

  std::unique_ptr<SampleStream<Batch>> stream(const DrawKey& key) const override {
    return std::make_unique<Samples>(data_, key.epoch);
  }

 private:
  class Samples final : public SampleStream<Batch> {
   public:
    Samples(DatasetPtr data, std::int64_t epoch) : data_(std::move(data)), epoch_(epoch) {}

    std::optional<Batch> next() override {
      if (at_ == data_->size()) return std::nullopt;
      const std::vector<std::int64_t> index{(at_++ + 7 * epoch_) % data_->size()};
      const Batch batch = data_->get(index, {});
      return Batch{batch.data[0], batch.target[0]};
    }

   private:
    DatasetPtr data_;
    std::int64_t epoch_;
    std::int64_t at_ = 0;
  };

  DatasetPtr data_;
};

}  // namespace cohort::train::testing
