#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace cohort::train {

struct ElasticSamplerOptions {
  std::int64_t batch_size = 32;  // samples of a step, of all ranks together
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on every rank
};

// This rank's share of an epoch in a job whose workers come and go: every sample once an epoch,
// none twice, none left out. Part of an elastic::State, which tells it the members of each view.
//
//   for (; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     while (sampler.batches() > 0) {
//       auto batch = dataset->get(sampler.batch(), {});
//       ... one step, with collectives; sampler.batch_total() samples over all ranks ...
//       sampler.record_batch();
//       state.commit();
//     }
//   }
//
// An epoch's order is the same on every rank. A batch is its next batch_size samples, whatever the
// number of ranks; rank r takes the r-th part. Parts differ by one sample at most, and a part may be
// empty (in a smaller last batch, or with fewer samples than ranks). The number of batches
// is the same for every rank, and so is the number of collective calls of a loop that makes as many
// for each batch, also for an empty one.
//
// What is processed is a number of samples from the front of the order, so after a change of
// members the rest is dealt anew to those that are there.
//
// Thread-compatible. Every rank calls set_epoch and record_batch as often as the others. Failure:
// InvalidInput for a batch that is not there.
class ElasticSampler {
 public:
  explicit ElasticSampler(std::int64_t samples, ElasticSamplerOptions options = {});

  // Begins `epoch`, with nothing processed. The epoch that is under way goes on: so a loop that is
  // entered again after a change of members may call it like one that begins.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }

  // Of this epoch, that are not processed; the same for all ranks.
  std::int64_t batches() const;
  // This rank's part of the next batch, or, for a loader that reads ahead, of one after it.
  std::vector<std::int64_t> batch(std::int64_t ahead = 0) const;
  // Samples of that batch over all ranks.
  std::int64_t batch_total(std::int64_t ahead = 0) const;
  // The next batch has entered the update on every rank.
  void record_batch();

  std::int64_t samples() const { return samples_; }
  std::int64_t processed() const { return processed_; }  // in this epoch, by all ranks
  const ElasticSamplerOptions& options() const { return options_; }

  // elastic::State's: the members of the view, and the position.
  void set_members(int rank, int size);
  nlohmann::json position() const;
  void set_position(const nlohmann::json& position);

 private:
  struct Range {
    std::int64_t first = 0, end = 0;
  };
  Range range(std::int64_t ahead) const;  // of all ranks, in the epoch's order
  void begin(std::int64_t epoch, std::int64_t processed);

  std::int64_t samples_;
  ElasticSamplerOptions options_;
  int rank_ = 0;
  int size_ = 1;
  std::int64_t epoch_ = -1;
  std::int64_t processed_ = 0;
  std::vector<std::int64_t> order_;
};

}  // namespace cohort::train
