#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "cohort/train/data/dataset.h"
#include "cohort/train/data/idx.h"
#include "cohort/train/data/image_files.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {

// Labelled images: get() gives floats 0 to 1 (N x C x H x W) and int64 labels.
class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(std::shared_ptr<const ImageStore> images) : images_(std::move(images)) {}

  std::int64_t size() const override { return images_->size(); }
  bool has_one_shape() const override { return true; }
  ImageShape shape() const { return images_->shape(); }
  Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override;
  // uint8.
  Batch get_raw(std::span<const std::int64_t> indices, const DrawKey& key) const override;
  std::optional<RawImages> raw_images(std::int64_t most_bytes) const override;
  std::unique_ptr<const SplitLoad> split(const SplitOptions& options) const override;

 private:
  std::shared_ptr<const ImageStore> images_;
};

// See image_files.h for the files, data_folder() for the folder.
DatasetPtr fashion_mnist(const std::filesystem::path& folder, Split split,
                         Storage storage = Storage::kMemory);
DatasetPtr mnist(const std::filesystem::path& folder, Split split,
                 Storage storage = Storage::kMemory);
DatasetPtr cifar10(const std::filesystem::path& folder, Split split,
                   Storage storage = Storage::kMemory);

// An IDX file of any type and number of dimensions, as a tensor.
torch::Tensor to_tensor(const IdxArray& array);

}  // namespace cohort::train
