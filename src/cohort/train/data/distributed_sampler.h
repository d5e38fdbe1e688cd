#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace cohort::train {

struct DistributedSamplerOptions {
  std::int64_t rank = 0;
  std::int64_t size = 1;  // of the job
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on every rank
  // By default each sample comes exactly once over all ranks. Parts of a batch may then differ by a
  // sample, and in an epoch's last batch be empty. Where that does not do, choose one:
  bool pad = false;        // repeat samples from the epoch's beginning until the ranks divide them
                           // evenly (PyTorch's default; those samples count twice)
  bool drop_last = false;  // leave out the samples that the ranks do not divide evenly
};

// This rank's part of the batches of an epoch, for loops of one's own (a DataLoader does this and
// the loading):
//   DistributedSampler sampler(dataset->size(), {.rank = rank, .size = size});
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     while (auto mine = sampler.next(64)) dataset->get(*mine, {});
//   }
// A batch is the job's: the next `batch_size` samples of the epoch's order, which is the same on
// every rank. Of those, rank r takes the positions r, r + size, ... of the epoch. So every rank gets
// as many batches, and what a batch holds does not depend on the number of ranks.
// Confined to one thread.
class DistributedSampler {
 public:
  // InvalidInput for fewer than 0 samples, for a rank that is not in [0, size), or pad and drop_last
  // together. Stands at the beginning of epoch 0.
  explicit DistributedSampler(std::int64_t samples, DistributedSamplerOptions options = {});

  // To the beginning of `epoch`.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }

  // This rank's part of the next batch of `batch_size` samples of the job; nothing at the epoch's
  // end. InvalidInput for a batch_size below 1.
  std::optional<std::vector<std::int64_t>> next(std::int64_t batch_size);

  std::int64_t samples() const { return samples_; }     // of an epoch, over all ranks
  std::int64_t processed() const { return position_; }  // of them, given to the ranks
  std::int64_t local_size() const;                      // of them, this rank's
  const DistributedSamplerOptions& options() const { return options_; }

  // To go on in the middle of an epoch, also with another number of ranks: {epoch, processed}.
  // InvalidInput for a position that this sampler cannot have.
  nlohmann::json position() const;
  void set_position(const nlohmann::json& position);

 private:
  DistributedSamplerOptions options_;
  std::int64_t samples_ = 0;
  std::int64_t epoch_ = -1;
  std::int64_t position_ = 0;
  std::vector<std::int64_t> order_;
};

// A DistributedSampler for LibTorch's own loaders:
//   TorchSampler sampler(DistributedSampler(*dataset.size(), {.rank = rank, .size = size}));
//   auto loader = torch::data::make_data_loader(dataset, sampler, batch_size);
// LibTorch's interface fixes two things: indices are size_t, and the loader's batch_size is this
// rank's, so that a batch of the job has batch_size * size samples. A last batch of which this rank
// has no part is left out.
// Copies share the sampler, so that set_epoch() reaches the one that the loader holds; it takes
// effect when the loader begins anew. Confined to one thread.
class TorchSampler final : public torch::data::samplers::Sampler<> {
 public:
  explicit TorchSampler(DistributedSampler sampler)
      : sampler_(std::make_shared<DistributedSampler>(std::move(sampler))) {}

  void set_epoch(std::int64_t epoch) { sampler_->set_epoch(epoch); }
  DistributedSampler& sampler() { return *sampler_; }

  // `size` other than the data set's is an InvalidInput.
  void reset(torch::optional<std::size_t> size = {}) override;
  torch::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::shared_ptr<DistributedSampler> sampler_;
};

}  // namespace cohort::train
