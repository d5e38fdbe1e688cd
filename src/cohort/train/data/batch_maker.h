#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cohort/train/data/any_batch.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/split_load.h"

namespace cohort::train {

// A batch whose device may still be at work on it. Made on one thread, taken on another.
class MadeBatch {
 public:
  // `ready`: reached when the batch is; none: it is.
  MadeBatch(AnyBatch batch, std::optional<c10::Event> ready)
      : batch_(std::move(batch)), ready_(std::move(ready)) {}

  // The batch, for work on the current stream of this thread: that stream waits for it, this thread
  // does not. Once.
  AnyBatch take();

 private:
  AnyBatch batch_;
  std::optional<c10::Event> ready_;
};

// Makes the batches of a source, for loaders: on the host as SampleSource::load() does, or on a
// device, on a stream of their own so that they are made while the device computes a step:
//   - where the source's load() can be split, the host's half, a copy from page-locked memory, the
//     device's half;
//   - else load(), and a copy of the batch from page-locked memory.
//
// Thread-safe: make() may be called from several threads at once. Failure: what the source and
// LibTorch throw.
class BatchMaker {
 public:
  struct DeviceOptions {
    torch::Device device = torch::kCPU;  // the CPU does the device's half itself (tests)
    bool channels_last = false;          // of images, and of all that has four dimensions
    std::int64_t cache_bytes = 0;        // SplitOptions
  };

  explicit BatchMaker(SourcePtr source);  // on the host
  // On the thread that takes the batches, whose current stream stays its own.
  BatchMaker(SourcePtr source, const DeviceOptions& options);

  MadeBatch make(std::span<const std::int64_t> indices, const DrawKey& key) const;
  const SampleSource& source() const { return *source_; }

 private:
  void begin() const;
  AnyBatch make_on_device(std::span<const std::int64_t> indices, const DrawKey& key) const;
  torch::Tensor copy(const torch::Tensor& tensor) const;

  SourcePtr source_;
  std::optional<DeviceOptions> options_;  // none: on the host
  std::optional<c10::Stream> stream_;     // none: that which is current, as all of a device's work
  // Made by the first batch, on its thread and on the stream.
  mutable std::once_flag begun_;
  mutable std::unique_ptr<const SplitLoad> split_;
  mutable std::vector<torch::Tensor> common_;
};

using BatchMakerPtr = std::shared_ptr<const BatchMaker>;

// As a training on `device` takes its batches: on the host for the CPU, else on the device.
BatchMakerPtr batch_maker_for(SourcePtr source, const BatchMaker::DeviceOptions& options);

}  // namespace cohort::train
