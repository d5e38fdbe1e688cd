#include "cohort/train/data/distributed_sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::int64_t samples_of_epoch(std::int64_t samples, const DistributedSamplerOptions& options) {
  const std::int64_t rest = samples % options.size;
  if (rest == 0) return samples;
  if (options.drop_last) return samples - rest;
  return options.pad ? samples + options.size - rest : samples;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t samples, DistributedSamplerOptions options)
    : options_(options) {
  if (samples < 0)
    throw InvalidInput(
        fmt::format("DistributedSampler: samples must be 0 or more, got {}", samples));
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw InvalidInput(
        fmt::format("DistributedSampler: rank must be from 0 to below the size, got {} of {}",
                    options.rank, options.size));
  if (options.pad && options.drop_last)
    throw InvalidInput("DistributedSampler: choose pad or drop_last, not both");
  samples_ = samples_of_epoch(samples, options);
  order_.resize(static_cast<std::size_t>(samples));
  set_epoch(0);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  position_ = 0;
  if (epoch == std::exchange(epoch_, epoch)) return;
  if (options_.shuffle)
    order_ = permutation(static_cast<std::int64_t>(order_.size()), options_.seed, epoch);
  else
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
}

std::int64_t DistributedSampler::local_size() const {
  return samples_ / options_.size + (options_.rank < samples_ % options_.size ? 1 : 0);
}

std::optional<std::vector<std::int64_t>> DistributedSampler::next(std::int64_t batch_size) {
  if (batch_size < 1)
    throw InvalidInput(
        fmt::format("DistributedSampler: batch_size must be at least 1, got {}", batch_size));
  if (position_ == samples_) return std::nullopt;
  const std::int64_t end = position_ + std::min(batch_size, samples_ - position_);
  std::vector<std::int64_t> mine;
  const std::int64_t before = (position_ - options_.rank + options_.size - 1) / options_.size;
  for (std::int64_t at = options_.rank + before * options_.size; at < end; at += options_.size)
    mine.push_back(order_[static_cast<std::size_t>(at) % order_.size()]);
  position_ = end;
  return mine;
}

nlohmann::json DistributedSampler::position() const {
  return {{"epoch", epoch_}, {"processed", position_}};
}

void DistributedSampler::set_position(const nlohmann::json& position) {
  const auto processed = position.at("processed").get<std::int64_t>();
  if (processed < 0 || processed > samples_)
    throw InvalidInput(fmt::format("DistributedSampler: {} processed samples were saved, there are "
                                   "{}",
                                   processed, samples_),
                       {.advice = "Give every rank the same data as before."});
  set_epoch(position.at("epoch").get<std::int64_t>());
  position_ = processed;
}

void TorchSampler::reset(torch::optional<std::size_t> size) {
  if (size.has_value() && static_cast<std::int64_t>(*size) != sampler_->samples())
    throw InvalidInput(fmt::format("TorchSampler: made for {} samples, the loader has {}",
                                   sampler_->samples(), *size));
  sampler_->set_epoch(sampler_->epoch());
}

torch::optional<std::vector<std::size_t>> TorchSampler::next(std::size_t batch_size) {
  const auto mine =
      sampler_->next(static_cast<std::int64_t>(batch_size) * sampler_->options().size);
  if (!mine || mine->empty()) return {};
  return std::vector<std::size_t>(mine->begin(), mine->end());
}

void TorchSampler::save(torch::serialize::OutputArchive& archive) const {
  const nlohmann::json position = sampler_->position();
  for (const auto& [name, value] : position.items())
    archive.write(name, torch::tensor(value.get<std::int64_t>(), torch::kInt64),
                  /*is_buffer=*/true);
}

void TorchSampler::load(torch::serialize::InputArchive& archive) {
  nlohmann::json position = sampler_->position();
  for (auto& [name, value] : position.items()) {
    torch::Tensor saved = torch::empty({1}, torch::kInt64);
    archive.read(name, saved, /*is_buffer=*/true);
    value = saved.item<std::int64_t>();
  }
  sampler_->set_position(position);
}

}  // namespace cohort::train
