#include "cohort/train/data/batch_maker.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/cuda/stream_scope.h"

namespace cohort::train {

AnyBatch MadeBatch::take() {
  if (!ready_) return std::move(batch_);
  bool waits = false;
  for (const torch::Tensor& tensor : batch_.tensors()) {
    if (tensor.device().is_cpu()) continue;
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    const c10::Stream stream = device.getStream(tensor.device());
    if (!std::exchange(waits, true)) ready_->block(stream);
    // Its memory is not used anew on the loader's stream before this one is done with it.
    tensor.record_stream(stream);
  }
  ready_.reset();
  return std::move(batch_);
}

BatchMaker::BatchMaker(SourcePtr source) : source_(std::move(source)) {}

BatchMaker::BatchMaker(SourcePtr source, const DeviceOptions& options)
    : source_(std::move(source)), options_(options) {
  if (options.device.is_cpu() || !parallel::built_with_cuda()) return;
  // LibTorch gives out the same streams again after some tens.
  do {
    stream_ = parallel::stream_from_pool(options.device);
  } while (*stream_ == parallel::thread_stream(options.device));
}

MadeBatch BatchMaker::make(std::span<const std::int64_t> indices, const DrawKey& key) const {
  const torch::NoGradGuard no_gradients;
  if (!options_) return {source_->load(indices, key), std::nullopt};
  if (!stream_) return {make_on_device(indices, key), std::nullopt};
  const c10::StreamGuard on(*stream_);
  AnyBatch batch = make_on_device(indices, key);
  c10::Event ready(options_->device.type());
  ready.record(*stream_);
  return {std::move(batch), std::move(ready)};
}

void BatchMaker::begin() const {
  split_ = source_->split({.cache_bytes = options_->cache_bytes,
                           .channels_last = options_->channels_last,
                           .pinned = stream_.has_value()});
  if (split_) common_ = split_->common(options_->device);
}

AnyBatch BatchMaker::make_on_device(std::span<const std::int64_t> indices,
                                    const DrawKey& key) const {
  std::call_once(begun_, [this] { begin(); });
  if (split_) {
    std::vector<torch::Tensor> given = split_->on_host(indices, key);
    for (torch::Tensor& tensor : given) tensor = copy(tensor);
    return split_->on_device(common_, given);
  }
  const AnyBatch batch = source_->load(indices, key);
  return batch.map([&](const torch::Tensor& tensor) {
    const torch::Tensor there = copy(tensor);
    const bool images = options_->channels_last && there.dim() == 4 && there.is_floating_point();
    return images ? there.contiguous(torch::MemoryFormat::ChannelsLast) : there;
  });
}

torch::Tensor BatchMaker::copy(const torch::Tensor& tensor) const {
  if (!stream_ || !tensor.device().is_cpu()) return tensor.to(options_->device);
  return tensor.pin_memory().to(options_->device, /*non_blocking=*/true);
}

BatchMakerPtr batch_maker_for(SourcePtr source, const BatchMaker::DeviceOptions& options) {
  if (options.device.is_cpu()) return std::make_shared<BatchMaker>(std::move(source));
  return std::make_shared<BatchMaker>(std::move(source), options);
}

}  // namespace cohort::train
