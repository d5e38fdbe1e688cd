#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/train/data/any_batch.h"
#include "cohort/train/data/draw_key.h"
#include "cohort/train/data/image_store.h"
#include "cohort/train/data/split_load.h"

namespace cohort::train {

// Some samples: their data and what should come out, first dimension the sample.
struct Batch {
  torch::Tensor data;
  torch::Tensor target;

  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
};

// Samples by number, in batches of any type: what fit(), evaluate() and loaders read.
// Thread-safe: every method is const and may be called from several threads at once. Bad data is
// InvalidInput.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t size() const = 0;
  // Whether samples are best asked for in ascending order: a training then takes them in the
  // source's own order, whatever FitOptions::shuffle says.
  virtual bool is_sequential() const { return false; }
  // Whether batches of so many samples have the same shapes, whichever samples they are. Several
  // replicas record steps as CUDA graphs only where that is so.
  virtual bool has_one_shape() const { return false; }

  // The samples at `indices`, in that order, as one batch with a row for each (InvalidInput
  // otherwise). Augmentation depends on (key.seed, key.epoch, index) only: a sample is the same
  // whatever batch or worker it is in.
  virtual AnyBatch load(std::span<const std::int64_t> indices, const DrawKey& key) const = 0;

  // load() in two halves, the second of which a GPU can do; null: load() is the only way.
  virtual std::unique_ptr<const SplitLoad> split(const SplitOptions&) const { return nullptr; }
};

using SourcePtr = std::shared_ptr<const SampleSource>;

// A data set whose batches are B: a tensor, a tuple, a map, a struct of tensors (tensor_tree.h).
//
//   struct Sentences { torch::Tensor ids, mask, labels; };
//   class Corpus : public cohort::DatasetOf<Sentences> { size(), get() };
template <BatchType B>
class DatasetOf : public SampleSource {
 public:
  // The samples at `indices`, in that order: of 0 rows for an empty list.
  virtual B get(std::span<const std::int64_t> indices, const DrawKey& key) const = 0;

  AnyBatch load(std::span<const std::int64_t> indices, const DrawKey& key) const override {
    AnyBatch batch(get(indices, key));
    check_rows(batch, static_cast<std::int64_t>(indices.size()));
    return batch;
  }
};

// Images as Dataset::get_raw() gives them: uint8, N x C x H x W, all of one shape.
struct RawImages {
  ImageShape shape;
  torch::Tensor pixels, target;  // of all samples in their order; undefined where not asked for
};

// A data set of pairs: data and what should come out.
class Dataset : public DatasetOf<Batch> {
 public:
  // As get(), but images may still be uint8 pixels, 0 to 255: Transformed turns them into floats in
  // its own pass.
  virtual Batch get_raw(std::span<const std::int64_t> indices, const DrawKey& key) const {
    return get(indices, key);
  }
  // What get_raw() gives of every sample, whatever the key; nothing where that is not images. With
  // all samples where they lie in memory in at most `most_bytes`.
  virtual std::optional<RawImages> raw_images(std::int64_t /*most_bytes*/) const {
    return std::nullopt;
  }

  AnyBatch load(std::span<const std::int64_t> indices, const DrawKey& key) const final;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// Tensors in memory: sample i is data[i], target[i].
class TensorDataset final : public Dataset {
 public:
  // InvalidInput when the first dimensions differ. Shares the tensors: do not write to them.
  TensorDataset(torch::Tensor data, torch::Tensor target);

  std::int64_t size() const override { return data_.size(0); }
  bool has_one_shape() const override { return true; }
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override;

 private:
  torch::Tensor data_, target_;
};

// Some samples of another data set, which keep the augmentation that they have there.
class Subset final : public Dataset {
 public:
  // InvalidInput when an index is not one of the data set's.
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  bool has_one_shape() const override { return dataset_->has_one_shape(); }
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override;
  Batch get_raw(std::span<const std::int64_t> indices, const DrawKey& key) const override;
  std::optional<RawImages> raw_images(std::int64_t most_bytes) const override;
  std::unique_ptr<const SplitLoad> split(const SplitOptions& options) const override;

 private:
  std::vector<std::int64_t> inner(std::span<const std::int64_t> indices) const;

  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

// The first n samples; all where there are fewer.
DatasetPtr take(DatasetPtr dataset, std::int64_t n);

// Samples rank, rank + size, rank + 2 * size ...: over all ranks each sample once. For loops of
// one's own; a Trainer splits every batch itself and wants the whole data set on each worker.
DatasetPtr shard(DatasetPtr dataset, std::int64_t size, std::int64_t rank);

}  // namespace cohort::train
