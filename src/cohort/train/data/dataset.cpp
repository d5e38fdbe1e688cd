#include "cohort/train/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {

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
