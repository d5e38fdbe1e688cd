#pragma once

#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cohort::train {

struct DistributedSamplerOptions {
  std::int64_t rank = 0;
  std::int64_t size = 1;  // of the job
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on every rank
  // By default each sample comes exactly once over all ranks; some ranks may have one sample more
  // than others, and so one batch more. Where every batch ends in a collective call, choose one:
  bool pad = false;        // repeat samples from the epoch's beginning, so that all have as many
                           // (PyTorch's default; those samples count twice)
  bool drop_last = false;  // leave out the samples that would make ranks differ
};

// This rank's share of an epoch, for loops of one's own:
//   DistributedSampler sampler(*dataset.size(), {.rank = rank, .size = size});
//   auto loader = torch::data::make_data_loader(dataset, sampler, batch_size);
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     for (auto& batch : *loader) ...
// Rank r takes positions r, r + size, ... of the epoch's order, which is the same on every rank.
// Copies share the epoch, so that set_epoch() reaches the copy that the data loader holds; it takes
// effect when the loader begins anew. set_epoch() is thread-safe, the rest confined to one thread.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // InvalidInput for a rank that is not in [0, size), or pad and drop_last together.
  explicit DistributedSampler(std::size_t dataset_size, DistributedSamplerOptions options = {});

  // The epoch that the next reset() shuffles for.
  void set_epoch(std::int64_t epoch) { *epoch_ = epoch; }
  std::int64_t epoch() const { return *epoch_; }
  // Samples that this rank takes in an epoch.
  std::size_t local_size() const;

  void reset(torch::optional<std::size_t> new_size = {}) override;
  torch::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::size_t dataset_size_;
  DistributedSamplerOptions options_;
  std::shared_ptr<std::atomic<std::int64_t>> epoch_;
  std::vector<std::size_t> mine_;
  std::size_t position_ = 0;  // in mine_
};

}  // namespace cohort::train
