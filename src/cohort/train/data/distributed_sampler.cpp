#include "cohort/train/data/distributed_sampler.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"

namespace cohort::train {

DistributedSampler::DistributedSampler(std::size_t dataset_size, DistributedSamplerOptions options)
    : dataset_size_(dataset_size),
      options_(options),
      epoch_(std::make_shared<std::atomic<std::int64_t>>(0)) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw InvalidInput(
        fmt::format("DistributedSampler: rank must be from 0 to below the size, got {} of {}",
                    options.rank, options.size));
  if (options.pad && options.drop_last)
    throw InvalidInput("DistributedSampler: choose pad or drop_last, not both");
  DistributedSampler::reset();
}

std::size_t DistributedSampler::local_size() const {
  const auto size = static_cast<std::size_t>(options_.size);
  const auto rank = static_cast<std::size_t>(options_.rank);
  const std::size_t rest = dataset_size_ % size;
  const bool one_more = options_.pad ? rest != 0 : !options_.drop_last && rank < rest;
  return dataset_size_ / size + (one_more ? 1 : 0);
}

void DistributedSampler::reset(torch::optional<std::size_t> new_size) {
  if (new_size.has_value()) dataset_size_ = *new_size;
  const auto count = static_cast<std::int64_t>(dataset_size_);
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    order = permutation(count, options_.seed, epoch());
  } else {
    order.resize(dataset_size_);
    std::iota(order.begin(), order.end(), std::int64_t{0});
  }
  mine_.resize(local_size());
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const std::size_t position =
        i * static_cast<std::size_t>(options_.size) + static_cast<std::size_t>(options_.rank);
    mine_[i] = static_cast<std::size_t>(order[position % order.size()]);
  }
  position_ = 0;
}

torch::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t count = std::min(batch_size, mine_.size() - position_);
  if (count == 0) return {};
  const auto from = mine_.begin() + static_cast<std::ptrdiff_t>(position_);
  position_ += count;
  return std::vector<std::size_t>(from, from + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(epoch(), torch::kInt64), /*is_buffer=*/true);
  archive.write("position", torch::tensor(static_cast<std::int64_t>(position_), torch::kInt64),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch = torch::empty({1}, torch::kInt64);
  torch::Tensor position = torch::empty({1}, torch::kInt64);
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("position", position, /*is_buffer=*/true);
  set_epoch(epoch.item<std::int64_t>());
  reset();
  const auto saved = position.item<std::int64_t>();
  if (saved < 0 || static_cast<std::size_t>(saved) > mine_.size())
    throw InvalidInput(
        fmt::format("DistributedSampler: the saved position {} is past this rank's {} samples",
                    saved, mine_.size()));
  position_ = static_cast<std::size_t>(saved);
}

}  // namespace cohort::train
