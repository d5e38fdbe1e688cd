#include "cohort/train/data/image_dataset.h"

#include <cstring>

#include "cohort/base/error.h"
#include "cohort/train/data/image_pass.h"
#include "cohort/train/data/image_split.h"

namespace cohort::train {
namespace {

torch::ScalarType scalar_type(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
      return torch::kUInt8;
    case IdxType::kInt8:
      return torch::kInt8;
    case IdxType::kInt16:
      return torch::kInt16;
    case IdxType::kInt32:
      return torch::kInt32;
    case IdxType::kFloat32:
      return torch::kFloat32;
    case IdxType::kFloat64:
      return torch::kFloat64;
  }
  throw InvalidInput(fmt::format("there is no IDX type {:#04x}", static_cast<int>(type)));
}

constexpr ImageShape kMnistShape{1, 28, 28};

DatasetPtr named_mnist(const std::filesystem::path& folder, Split split, Storage storage,
                       std::string_view name) {
  auto images = open_mnist(folder, split, storage, name);
  expect_shape(*images, kMnistShape, name, folder);
  return std::make_shared<ImageDataset>(std::move(images));
}

}  // namespace

Batch ImageDataset::get_raw(std::span<const std::int64_t> indices, const DrawKey&) const {
  const ImageShape shape = images_->shape();
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch batch{torch::empty({count, shape.channels, shape.height, shape.width}, torch::kUInt8),
              torch::empty({count}, torch::kInt64)};
  images_->read(indices, batch.data.data_ptr<std::uint8_t>(),
                batch.target.data_ptr<std::int64_t>());
  return batch;
}

Batch ImageDataset::get(std::span<const std::int64_t> indices, const DrawKey& key) const {
  Batch batch = get_raw(indices, key);
  auto floats = torch::empty(batch.data.sizes(), torch::kFloat32);
  const std::int64_t bytes = batch.data.numel();
  // All images as one row of one channel.
  pass_image(batch.data.data_ptr<std::uint8_t>(), {1, 1, bytes}, AxisMap(1), AxisMap(bytes),
             PixelScale(1), floats.data_ptr<float>());
  return {std::move(floats), std::move(batch.target)};
}

std::optional<RawImages> ImageDataset::raw_images(std::int64_t most_bytes) const {
  RawImages images{.shape = images_->shape(), .pixels = {}, .target = {}};
  const ImageStore::InMemory all = images_->in_memory();
  if (all.pixels.empty() || static_cast<std::int64_t>(all.pixels.size()) > most_bytes)
    return images;
  const ImageShape& shape = images.shape;
  const auto bytes = [](std::span<const std::uint8_t> span, torch::IntArrayRef sizes) {
    // LibTorch has no tensors that cannot be written; this one is only read.
    return torch::from_blob(const_cast<std::uint8_t*>(span.data()), sizes,
                            torch::kUInt8);  // NOLINT
  };
  images.pixels = bytes(all.pixels, {size(), shape.channels, shape.height, shape.width});
  images.target = bytes(all.labels, {size()}).to(torch::kInt64);
  return images;
}

std::unique_ptr<const SplitLoad> ImageDataset::split(const SplitOptions& options) const {
  const ImageShape shape = images_->shape();
  return std::make_unique<ImageSplit>(
      *this, *raw_images(options.cache_bytes), PixelScale(shape.channels),
      [shape](const DrawKey&, std::int64_t) {
        return ImageAxes{AxisMap(shape.height), AxisMap(shape.width)};
      },
      options);
}

DatasetPtr fashion_mnist(const std::filesystem::path& folder, Split split, Storage storage) {
  return named_mnist(folder, split, storage, "fashion-mnist");
}

DatasetPtr mnist(const std::filesystem::path& folder, Split split, Storage storage) {
  return named_mnist(folder, split, storage, "mnist");
}

DatasetPtr cifar10(const std::filesystem::path& folder, Split split, Storage storage) {
  return std::make_shared<ImageDataset>(open_cifar10(folder, split, storage));
}

torch::Tensor to_tensor(const IdxArray& array) {
  auto tensor = torch::empty(array.header.dims, scalar_type(array.header.type));
  if (!array.bytes.empty()) std::memcpy(tensor.data_ptr(), array.bytes.data(), array.bytes.size());
  return tensor;
}

}  // namespace cohort::train
