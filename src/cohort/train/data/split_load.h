#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/train/data/any_batch.h"
#include "cohort/train/data/draw_key.h"

namespace cohort::train {

struct SplitOptions {
  // All samples are kept on the device where they lie in memory in no more bytes than this; 0: never.
  std::int64_t cache_bytes = 0;
  bool channels_last = false;  // of images that are made
  bool pinned = false;  // what the host makes lies in page-locked memory where that saves a copy
};

// SampleSource::load() in two halves: the host chooses and draws, a device does the arithmetic. The
// batch has the values of load(), bit for bit, whatever the device.
//
// Thread-safe: every method is const and may be called from several threads at once. The source that
// made it must outlive it. Failure: as load().
class SplitLoad {
 public:
  virtual ~SplitLoad() = default;

  // What all batches have in common, on `device`: made once, given to each on_device().
  virtual std::vector<torch::Tensor> common(torch::Device device) const = 0;

  // The first half: tensors on the CPU, small where it can be.
  virtual std::vector<torch::Tensor> on_host(std::span<const std::int64_t> indices,
                                             const DrawKey& key) const = 0;

  // The second half: the batch, by operations of LibTorch alone, which do not wait for the device.
  // `given`: what on_host() gave, on the device.
  virtual AnyBatch on_device(std::span<const torch::Tensor> common,
                             std::span<const torch::Tensor> given) const = 0;
};

}  // namespace cohort::train
