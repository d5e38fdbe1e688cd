#include "cohort/train/data/elastic_sampler.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"

namespace cohort::train {

ElasticSampler::ElasticSampler(std::int64_t samples, ElasticSamplerOptions options)
    : samples_(samples), options_(options) {
  if (samples < 0)
    throw InvalidInput(fmt::format("ElasticSampler: samples must be 0 or more, got {}", samples));
  if (options.batch_size < 1)
    throw InvalidInput(
        fmt::format("ElasticSampler: batch_size must be at least 1, got {}", options.batch_size));
  begin(0, 0);
}

void ElasticSampler::begin(std::int64_t epoch, std::int64_t processed) {
  if (epoch != epoch_) {
    if (options_.shuffle) {
      order_ = permutation(samples_, options_.seed, epoch);
    } else {
      order_.resize(static_cast<std::size_t>(samples_));
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
    }
  }
  epoch_ = epoch;
  processed_ = processed;
}

void ElasticSampler::set_epoch(std::int64_t epoch) {
  if (epoch != epoch_) begin(epoch, 0);
}

std::int64_t ElasticSampler::batches() const {
  return (samples_ - processed_ + options_.batch_size - 1) / options_.batch_size;
}

ElasticSampler::Range ElasticSampler::range(std::int64_t ahead) const {
  if (ahead < 0 || ahead >= batches())
    throw InvalidInput(
        fmt::format("ElasticSampler: batch {} from here was asked for, {} are left in epoch {}",
                    ahead, batches(), epoch_),
        {.advice = "Ask only while batches() is greater."});
  const std::int64_t first = processed_ + ahead * options_.batch_size;
  return {first, std::min(first + options_.batch_size, samples_)};
}

std::vector<std::int64_t> ElasticSampler::batch(std::int64_t ahead) const {
  const Range all = range(ahead);
  const std::int64_t count = all.end - all.first;
  return {order_.begin() + all.first + count * rank_ / size_,
          order_.begin() + all.first + count * (rank_ + 1) / size_};
}

std::int64_t ElasticSampler::batch_total(std::int64_t ahead) const {
  const Range all = range(ahead);
  return all.end - all.first;
}

void ElasticSampler::record_batch() { processed_ = range(0).end; }

void ElasticSampler::set_members(int rank, int size) {
  COHORT_CHECK(rank >= 0 && rank < size, "there is no rank {} of {}", rank, size);
  rank_ = rank;
  size_ = size;
}

nlohmann::json ElasticSampler::position() const {
  return {{"epoch", epoch_}, {"processed", processed_}};
}

void ElasticSampler::set_position(const nlohmann::json& position) {
  const auto processed = position.at("processed").get<std::int64_t>();
  if (processed < 0 || processed > samples_)
    throw InvalidInput(fmt::format("ElasticSampler: {} processed samples were saved, there are {}",
                                   processed, samples_),
                       {.advice = "Give every worker the same data."});
  begin(position.at("epoch").get<std::int64_t>(), processed);
}

}  // namespace cohort::train
