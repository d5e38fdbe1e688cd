#include "cohort/train/data/transforms.h"

#include <optional>
#include <utility>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/train/data/image_pass.h"
#include "cohort/train/data/image_split.h"

namespace cohort::train {
namespace {

// Draws of one stage; no stage takes as many from one sample.
constexpr std::uint64_t kDrawsPerStage = 1 << 16;

void check(const Normalise& transform) {
  if (transform.mean.empty() || transform.mean.size() != transform.std.size())
    throw InvalidInput(
        fmt::format("Normalise: mean and std must have one value a channel, got {} and {}",
                    transform.mean.size(), transform.std.size()));
  for (const float std : transform.std)
    if (!(std > 0)) throw InvalidInput(fmt::format("Normalise: std must be positive, got {}", std));
}

void check(const RandomCrop& transform) {
  if (transform.padding < 0 || transform.height < 0 || transform.width < 0)
    throw InvalidInput(
        fmt::format("RandomCrop: sizes must be 0 or more, got padding {}, height {}, width {}",
                    transform.padding, transform.height, transform.width));
}

void check(const HorizontalFlip& transform) {
  if (!(transform.probability >= 0 && transform.probability <= 1))
    throw InvalidInput(
        fmt::format("HorizontalFlip: probability must be 0 to 1, got {}", transform.probability));
}

void check(const MapBatch& transform) {
  if (!transform.apply) throw InvalidInput("MapBatch: apply must be a function, got none");
}

bool is_image_transform(const Transform& transform) {
  return !std::holds_alternative<MapBatch>(transform);
}

void check_order(const std::vector<Transform>& stage) {
  bool normalised = false, cropped_before = false;
  for (const Transform& transform : stage) {
    if (std::holds_alternative<Normalise>(transform)) {
      if (normalised) throw InvalidInput("two Normalise in a row: put them together in one");
      normalised = true;
    } else if (std::holds_alternative<RandomCrop>(transform)) {
      if (normalised && cropped_before)
        throw InvalidInput("RandomCrop on both sides of Normalise: put Normalise first or last");
      cropped_before = cropped_before || !normalised;
    }
  }
}

PixelScale scale_of(const std::vector<Transform>& stage, std::int64_t channels) {
  bool crop_seen = false;
  for (const Transform& transform : stage) {
    crop_seen = crop_seen || std::holds_alternative<RandomCrop>(transform);
    const auto* normalise = std::get_if<Normalise>(&transform);
    if (normalise == nullptr) continue;
    const auto expand = [channels](const std::vector<float>& values) {
      if (values.size() == 1)
        return std::vector<float>(static_cast<std::size_t>(channels), values[0]);
      if (static_cast<std::int64_t>(values.size()) != channels)
        throw InvalidInput(
            fmt::format("Normalise has {} channels, the images {}", values.size(), channels));
      return values;
    };
    return PixelScale(expand(normalise->mean), expand(normalise->std), !crop_seen);
  }
  return PixelScale(channels);
}

// Draws an offset for one axis; the window must fit.
void crop(AxisMap& axis, std::int64_t wanted, std::int64_t padding, CounterRandom& random) {
  const std::int64_t size = wanted == 0 ? axis.size : wanted;
  const std::int64_t room = axis.size + 2 * padding - size;
  if (room < 0)
    throw InvalidInput(fmt::format("RandomCrop cannot cut {} pixels out of {} with {} of padding",
                                   size, axis.size, padding));
  axis.crop(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(room) + 1)) - padding,
            size);
}

ImageAxes axes_of(const std::vector<Transform>& stage, const ImageShape& shape,
                  CounterRandom& random) {
  ImageAxes axes{AxisMap(shape.height), AxisMap(shape.width)};
  for (const Transform& transform : stage) {
    if (const auto* window = std::get_if<RandomCrop>(&transform)) {
      crop(axes.rows, window->height, window->padding, random);
      crop(axes.columns, window->width, window->padding, random);
    } else if (const auto* flip = std::get_if<HorizontalFlip>(&transform)) {
      if (random.uniform() < flip->probability) axes.columns.flip();
    }
  }
  return axes;
}

// Of the sample `index`, in the stage with this number.
ImageAxes axes_of(const std::vector<Transform>& stage, const ImageShape& shape,
                  std::uint64_t number, const DrawKey& key, std::int64_t index) {
  CounterRandom random(key.seed, RandomStream::kAugmentation, static_cast<std::uint64_t>(key.epoch),
                       static_cast<std::uint64_t>(index));
  random.seek(number * kDrawsPerStage);
  return axes_of(stage, shape, random);
}

}  // namespace

Transformed::Transformed(DatasetPtr dataset, std::vector<Transform> transforms)
    : dataset_(std::move(dataset)) {
  for (Transform& transform : transforms) {
    std::visit([](const auto& one) { check(one); }, transform);
    const bool joins = !stages_.empty() && is_image_transform(transform) &&
                       is_image_transform(stages_.back().back());
    if (!joins) stages_.emplace_back();
    stages_.back().push_back(std::move(transform));
  }
  for (const Stage& stage : stages_) check_order(stage);
}

Batch Transformed::get(std::span<const std::int64_t> indices, const DrawKey& key) const {
  const bool images_first = !stages_.empty() && is_image_transform(stages_.front().front());
  Batch batch = images_first ? dataset_->get_raw(indices, key) : dataset_->get(indices, key);
  std::uint64_t number = 0;
  for (const Stage& stage : stages_) {
    if (const auto* own = std::get_if<MapBatch>(&stage.front()))
      batch = own->apply(std::move(batch), indices, key);
    else
      batch = pass(stage, number, std::move(batch), indices, key);
    ++number;
  }
  return batch;
}

bool Transformed::has_one_shape() const {
  return dataset_->has_one_shape() && std::none_of(stages_.begin(), stages_.end(), [](auto& stage) {
           return std::holds_alternative<MapBatch>(stage.front());
         });
}

std::unique_ptr<const SplitLoad> Transformed::split(const SplitOptions& options) const {
  if (stages_.size() != 1 || !is_image_transform(stages_.front().front())) return nullptr;
  std::optional<RawImages> images = dataset_->raw_images(options.cache_bytes);
  if (!images) return nullptr;
  const Stage& stage = stages_.front();
  const ImageShape shape = images->shape;
  return std::make_unique<ImageSplit>(
      *dataset_, *std::move(images), scale_of(stage, shape.channels),
      [&stage, shape](const DrawKey& key, std::int64_t index) {
        return axes_of(stage, shape, 0, key, index);
      },
      options);
}

Batch Transformed::pass(const Stage& stage, std::uint64_t number, Batch batch,
                        std::span<const std::int64_t> indices, const DrawKey& key) const {
  const torch::Tensor in = batch.data.contiguous();
  if (in.dim() != 4 || !in.device().is_cpu() ||
      (in.scalar_type() != torch::kUInt8 && in.scalar_type() != torch::kFloat32))
    throw InvalidInput(
        fmt::format("crop, flip and normalise take images N x C x H x W, uint8 or float32, on the "
                    "CPU; the data "
                    "set gave {} dimensions of {}",
                    in.dim(), torch::toString(in.scalar_type())));
  const ImageShape shape{in.size(1), in.size(2), in.size(3)};
  const PixelScale scale = scale_of(stage, shape.channels);
  torch::Tensor out;
  float* to = nullptr;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const ImageAxes axes = axes_of(stage, shape, number, key, indices[i]);
    if (!out.defined()) {  // every sample has the same size
      out = torch::empty({in.size(0), shape.channels, axes.rows.size, axes.columns.size},
                         torch::kFloat32);
      to = out.data_ptr<float>();
    }
    const auto offset = static_cast<std::int64_t>(i) * shape.bytes();
    if (in.scalar_type() == torch::kUInt8)
      pass_image(in.data_ptr<std::uint8_t>() + offset, shape, axes.rows, axes.columns, scale, to);
    else
      pass_image(in.data_ptr<float>() + offset, shape, axes.rows, axes.columns, scale, to);
    to += shape.channels * axes.rows.size * axes.columns.size;
  }
  if (!out.defined()) {
    CounterRandom random(0, RandomStream::kAugmentation);
    const ImageAxes axes = axes_of(stage, shape, random);
    out = torch::empty({0, shape.channels, axes.rows.size, axes.columns.size}, torch::kFloat32);
  }
  return {std::move(out), std::move(batch.target)};
}

}  // namespace cohort::train
