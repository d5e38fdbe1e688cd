#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "cohort/train/data/dataset.h"

// Augmentation. Neighbouring image transforms (the first three) are done in one pass over the
// pixels, whatever their number:
//   Transformed(cifar10(folder, Split::kTrain), {RandomCrop{.padding = 4}, HorizontalFlip{},
//                                                Normalise{{0.49, 0.48, 0.45}, {0.25, 0.24,
//                                                0.26}}})
namespace cohort::train {

// (x - mean) / std, one of each a channel, or one for all. Pixels count as 0 to 1.
struct Normalise {
  std::vector<float> mean;
  std::vector<float> std;
};

// A random window of `height` x `width` (0: as large as the image) of the image with `padding`
// pixels added on each side. They are black; 0 after Normalise.
struct RandomCrop {
  std::int64_t padding = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Left and right exchanged, with this probability.
struct HorizontalFlip {
  double probability = 0.5;
};

// One's own. Must keep Dataset's promises: thread-safe; random numbers from (key.seed, key.epoch,
// index) only (CounterRandom, with a stream from RandomStream::kUser on).
struct MapBatch {
  std::function<Batch(Batch, std::span<const std::int64_t> indices, const DrawKey& key)> apply;
};

using Transform = std::variant<Normalise, RandomCrop, HorizontalFlip, MapBatch>;

// A data set with transforms applied in their order. Sample i draws its random numbers from
// (key.seed, key.epoch, i); i is its number in the data set given here. Image transforms take
// N x C x H x W, uint8 or float32, and give float32; anything else is InvalidInput in get().
class Transformed final : public Dataset {
 public:
  // InvalidInput for values that cannot be (a deviation of 0, a probability of 2, crops on both
  // sides of a Normalise).
  Transformed(DatasetPtr dataset, std::vector<Transform> transforms);

  std::int64_t size() const override { return dataset_->size(); }
  bool has_one_shape() const override;  // MapBatch may give batches of any
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override;
  // Where image transforms alone, in one run, are applied to stored images.
  std::unique_ptr<const SplitLoad> split(const SplitOptions& options) const override;

 private:
  // A run of image transforms, or one MapBatch.
  using Stage = std::vector<Transform>;
  Batch pass(const Stage& stage, std::uint64_t number, Batch batch,
             std::span<const std::int64_t> indices, const DrawKey& key) const;

  DatasetPtr dataset_;
  std::vector<Stage> stages_;
};

}  // namespace cohort::train
