#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/stack_samples.h"
#include "cohort/train/data/stream_cursors.h"

namespace cohort::train {

// The samples of an epoch, one after another; each without the batch's dimension.
// Confined to one thread at a time.
template <typename B>
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // The next sample; nothing at the end.
  virtual std::optional<B> next() = 0;
  // Passes over up to `count` samples and returns how many there were. Worth overriding where that
  // is cheaper than making them: each worker passes over the samples of the others.
  virtual std::int64_t skip(std::int64_t count) {
    std::int64_t passed = 0;
    while (passed < count && next()) ++passed;
    return passed;
  }
};

// Samples that come one after another and cannot be asked for by number: lines of a file, rows of
// a query, a simulation.
//
//   struct Lines : cohort::IterableDataset<Item> {
//     std::unique_ptr<cohort::SampleStream<Item>> stream(const DrawKey& key) const override;
//   };
//
// Every worker runs the stream and takes the samples of its shards out of it. So that every sample
// enters exactly one update, whatever happens to workers in between, stream(key) gives the same
// samples in the same order on every worker and each time that it is called for the same
// (key.seed, key.epoch). The order is the stream's own: FitOptions::shuffle changes nothing.
//
// An epoch ends where the stream does. Its length must be known before: it is `samples` where that
// is given (a longer stream is cut there; so an endless one can be used), else it is counted once,
// by passing over one epoch with skip(). Every epoch has this length; a stream that ends earlier, or
// goes on where its length was counted, is InvalidInput that names the epoch.
//
// Thread-safe: several threads may ask at once, each reads with a stream of its own; stream() may
// so be called by several threads.
template <BatchType B>
class IterableDataset : public DatasetOf<B> {
 public:
  explicit IterableDataset(std::int64_t samples = 0) : declared_(samples) {
    if (samples < 0)
      throw InvalidInput(
          fmt::format("IterableDataset: samples must be 0 or more, got {}", samples));
  }

  // The stream of an epoch, from its first sample.
  virtual std::unique_ptr<SampleStream<B>> stream(const DrawKey& key) const = 0;

  bool is_sequential() const final { return true; }

  std::int64_t size() const final {
    if (declared_ > 0) return declared_;
    std::call_once(counting_, [this] {
      constexpr std::int64_t kPortion = 1 << 20;
      const auto all = stream(DrawKey{});
      std::int64_t count = 0;
      for (std::int64_t passed = kPortion; passed == kPortion; count += passed)
        passed = all->skip(kPortion);
      counted_ = count;
    });
    return counted_;
  }

  B get(std::span<const std::int64_t> indices, const DrawKey& key) const final {
    const StreamKey place{key.seed, key.epoch};
    std::vector<B> batch;
    Stream stream;
    std::int64_t position = 0;  // of the sample that it gives next
    for (const std::int64_t index : indices) {
      check_stream_index(index, size());
      if (!stream || index < position) {
        std::tie(position, stream) = cursors_.take(place, index);
        if (!stream) stream = this->stream(key);
      }
      batch.push_back(read(*stream, position, index, key.epoch));
    }
    if (stream && position < size()) cursors_.give(place, position, std::move(stream));
    return stack_samples(batch);
  }

 private:
  using Stream = std::unique_ptr<SampleStream<B>>;

  B read(SampleStream<B>& stream, std::int64_t& position, std::int64_t index,
         std::int64_t epoch) const {
    position += stream.skip(index - position);
    std::optional<B> sample;
    if (position == index) sample = stream.next();
    if (!sample) refuse_short_stream(epoch, position, size());
    ++position;
    if (position == size() && declared_ == 0 && stream.skip(1) != 0)
      refuse_long_stream(epoch, size());
    return *std::move(sample);
  }

  std::int64_t declared_;
  mutable std::once_flag counting_;
  mutable std::int64_t counted_ = 0;
  mutable StreamCursors<Stream> cursors_;
};

}  // namespace cohort::train
