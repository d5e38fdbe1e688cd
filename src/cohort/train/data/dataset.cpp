#include "cohort/train/data/dataset.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {
namespace {

// Of some samples of another data set, whose second half does not know of that.
class SubsetSplit final : public SplitLoad {
 public:
  using Inner = std::function<std::vector<std::int64_t>(std::span<const std::int64_t>)>;
  SubsetSplit(std::unique_ptr<const SplitLoad> split, Inner inner)
      : split_(std::move(split)), inner_(std::move(inner)) {}

  std::vector<torch::Tensor> common(torch::Device device) const override {
    return split_->common(device);
  }
  std::vector<torch::Tensor> on_host(std::span<const std::int64_t> indices,
                                     const DrawKey& key) const override {
    return split_->on_host(inner_(indices), key);
  }
  AnyBatch on_device(std::span<const torch::Tensor> common,
                     std::span<const torch::Tensor> given) const override {
    return split_->on_device(common, given);
  }

 private:
  std::unique_ptr<const SplitLoad> split_;
  Inner inner_;
};

torch::Tensor as_tensor(const std::vector<std::int64_t>& numbers) {
  return torch::tensor(numbers, torch::kInt64);
}

}  // namespace

AnyBatch Dataset::load(std::span<const std::int64_t> indices, const DrawKey& key) const {
  Batch batch = get(indices, key);
  const auto rows = [](const torch::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
  };
  const auto asked = static_cast<std::int64_t>(indices.size());
  if (rows(batch.data) != asked || rows(batch.target) != asked)
    throw InvalidInput(
        fmt::format("Dataset::get() was asked for {} samples and gave {} rows of data and {} of "
                    "targets",
                    asked, rows(batch.data), rows(batch.target)),
        {.advice = "Return one row an index, in the order of the indices."});
  return batch;
}

TensorDataset::TensorDataset(torch::Tensor data, torch::Tensor target)
    : data_(std::move(data)), target_(std::move(target)) {
  if (!data_.defined() || !target_.defined() || data_.dim() == 0 || target_.dim() == 0)
    throw InvalidInput("a TensorDataset needs data and targets, each with a dimension of samples");
  if (data_.size(0) != target_.size(0))
    throw InvalidInput(fmt::format("a TensorDataset got {} samples and {} targets", data_.size(0),
                                   target_.size(0)));
}

Batch TensorDataset::get(std::span<const std::int64_t> indices, const DrawKey&) const {
  check_indices(indices, size());
  const auto count = static_cast<std::int64_t>(indices.size());
  auto where = torch::empty({count}, torch::kInt64);
  std::copy(indices.begin(), indices.end(), where.data_ptr<std::int64_t>());
  return {data_.index_select(0, where.to(data_.device())),
          target_.index_select(0, where.to(target_.device()))};
}

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  check_indices(indices_, dataset_->size());
}

std::vector<std::int64_t> Subset::inner(std::span<const std::int64_t> indices) const {
  check_indices(indices, size());
  std::vector<std::int64_t> result;
  result.reserve(indices.size());
  for (const std::int64_t index : indices)
    result.push_back(indices_[static_cast<std::size_t>(index)]);
  return result;
}

Batch Subset::get(std::span<const std::int64_t> indices, const DrawKey& key) const {
  return dataset_->get(inner(indices), key);
}

Batch Subset::get_raw(std::span<const std::int64_t> indices, const DrawKey& key) const {
  return dataset_->get_raw(inner(indices), key);
}

std::optional<RawImages> Subset::raw_images(std::int64_t most_bytes) const {
  std::optional<RawImages> images = dataset_->raw_images(0);
  if (!images || size() * images->shape.bytes() > most_bytes) return images;
  images = dataset_->raw_images(std::numeric_limits<std::int64_t>::max());
  if (images->pixels.defined()) {
    const torch::Tensor where = as_tensor(indices_);
    images->pixels = images->pixels.index_select(0, where);
    images->target = images->target.index_select(0, where);
  }
  return images;
}

std::unique_ptr<const SplitLoad> Subset::split(const SplitOptions& options) const {
  auto split = dataset_->split(options);
  if (!split) return nullptr;
  return std::make_unique<SubsetSplit>(
      std::move(split), [this](std::span<const std::int64_t> indices) { return inner(indices); });
}

DatasetPtr take(DatasetPtr dataset, std::int64_t n) {
  if (n < 0) throw InvalidInput(fmt::format("take(): n must be 0 or more, got {}", n));
  if (n >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

DatasetPtr shard(DatasetPtr dataset, std::int64_t size, std::int64_t rank) {
  if (size < 1 || rank < 0 || rank >= size)
    throw InvalidInput(
        fmt::format("shard(): rank must be from 0 to below the size, got {} of {}", rank, size));
  std::vector<std::int64_t> indices;
  for (std::int64_t index = rank; index < dataset->size(); index += size) indices.push_back(index);
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

}  // namespace cohort::train
