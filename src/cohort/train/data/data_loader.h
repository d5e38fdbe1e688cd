#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/distributed_data_parallel.h"
#include "cohort/train/data/any_batch.h"
#include "cohort/train/data/dataset.h"

namespace cohort::train {

struct DataLoaderOptions {
  std::int64_t batch_size = 32;  // samples of a step, of all ranks together: as the Trainer's
  int virtual_shards = 0;        // as DistributedDataParallel's
  bool shuffle = true;
  bool drop_last = false;              // leave out the samples that do not fill a last batch
  std::uint64_t seed = 0;              // of the order and of augmentation; the same on every rank
  int workers = 1;                     // threads that load; 0: the caller does
  int prefetch = 2;                    // steps that are loaded ahead, at most
  torch::Device device = torch::kCPU;  // where batches go; on the way to a GPU by pinned memory
};

// What stands behind a DataLoader: this rank's part of the job's batches, of any type.
class StepLoader {
 public:
  using Step = parallel::ShardedBatch<AnyBatch>;

  StepLoader(int rank, int size, SourcePtr source, DataLoaderOptions options);
  ~StepLoader();
  StepLoader(StepLoader&&) noexcept;
  StepLoader& operator=(StepLoader&&) noexcept;

  std::optional<Step> next();  // nothing at the epoch's end
  void expect_whole_parts() const;
  void set_epoch(std::int64_t epoch);
  void restart();
  std::int64_t epoch() const;
  std::int64_t steps_per_epoch() const;
  std::int64_t step() const;
  nlohmann::json position() const;
  void set_position(const nlohmann::json& position);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Batches for a loop of one's own, loaded ahead by background threads, shuffled anew each epoch,
// each rank its part:
//
//   cohort::DataLoader<Sentences> loader(context, corpus, {.batch_size = 64});
//   for (std::int64_t epoch = loader.epoch(); epoch < 3; ++epoch) {
//     loader.set_epoch(epoch);
//     for (const Sentences& batch : loader) ...
//   }
//
// `B` is what the data set gives; Batch where it is not named. A batch of the job is the next
// batch_size samples of the epoch's order, the same as a Trainer's for the same seed; a rank gets a
// contiguous part, by one sample larger or smaller than the others'. steps() gives the same as
// ShardedBatch, for DistributedDataParallel::backward(batch, loss): with virtual_shards, or where
// parts may differ.
//
// Where it stands is the batch that comes next: so save position() after the update that a batch was
// for. A loop that is left with `break` goes on behind that batch when it is entered again, unless
// restart() or another set_epoch() is called. At the end of an epoch the next one begins.
//
// Confined to one thread. An error of the data set comes out of the loop in its turn, with the batch.
// Failure: InvalidInput for options that cannot be, for a data set of another batch type, for a
// position of other data; and where batches are iterated (not steps()) with virtual_shards, or with
// a last batch of fewer samples than ranks.
template <BatchType B = Batch>
class DataLoader {
 public:
  using Step = parallel::ShardedBatch<B>;

  // A Context does for `group`. Not collective.
  DataLoader(const collective::Group& group, SourcePtr source, DataLoaderOptions options = {})
      : loader_(group.rank(), group.size(), std::move(source), options) {}

  // The next one of this epoch; nothing at its end, after which the next epoch begins.
  std::optional<B> next() {
    loader_.expect_whole_parts();
    if (auto step = loader_.next()) return step->shards.at(0).template as<B>();
    return std::nullopt;
  }
  std::optional<Step> next_step() {
    auto loaded = loader_.next();
    if (!loaded) return std::nullopt;
    Step step{.shards = {}, .weights = std::move(loaded->weights), .total = loaded->total};
    for (const AnyBatch& shard : loaded->shards) step.shards.push_back(shard.as<B>());
    return step;
  }

  // Reads one item after the other; a loop over it is a loop over next().
  template <typename Item, std::optional<Item> (DataLoader::*Next)()>
  class Items {
   public:
    explicit Items(DataLoader& loader) : loader_(loader) {}
    class Iterator {
     public:
      using iterator_category = std::input_iterator_tag;
      using value_type = Item;
      using difference_type = std::ptrdiff_t;
      using pointer = Item*;
      using reference = Item&;
      explicit Iterator(DataLoader& loader) : loader_(&loader), item_((loader.*Next)()) {}
      Item& operator*() { return *item_; }
      Item* operator->() { return &*item_; }
      Iterator& operator++() {
        item_.reset();  // its memory may serve the next one
        item_ = (loader_->*Next)();
        return *this;
      }
      void operator++(int) { ++*this; }
      bool operator==(std::default_sentinel_t) const { return !item_; }

     private:
      DataLoader* loader_;
      std::optional<Item> item_;
    };
    Iterator begin() { return Iterator(loader_); }
    std::default_sentinel_t end() const { return {}; }

   private:
    DataLoader& loader_;
  };
  using Batches = Items<B, &DataLoader::next>;
  using Steps = Items<Step, &DataLoader::next_step>;

  typename Batches::Iterator begin() { return Batches(*this).begin(); }
  std::default_sentinel_t end() const { return {}; }
  Steps steps() { return Steps(*this); }

  // To the beginning of `epoch`; the epoch that is under way goes on.
  void set_epoch(std::int64_t epoch) { loader_.set_epoch(epoch); }
  void restart() { loader_.restart(); }  // to the beginning of this epoch
  std::int64_t epoch() const { return loader_.epoch(); }
  std::int64_t step() const { return loader_.step(); }  // of the epoch, that comes next
  std::int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }

  // {epoch, processed}: to go on in the middle of an epoch, also with another number of ranks.
  nlohmann::json position() const { return loader_.position(); }
  void set_position(const nlohmann::json& position) { loader_.set_position(position); }

 private:
  StepLoader loader_;
};

}  // namespace cohort::train
