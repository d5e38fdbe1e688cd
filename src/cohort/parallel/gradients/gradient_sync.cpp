#include "cohort/parallel/gradients/gradient_sync.h"

#include <optional>

#include "cohort/parallel/gradients/bucket_all_reduce.h"
#include "cohort/parallel/gradients/bucket_push.h"
#include "cohort/parallel/gradients/device_gradients.h"
#include "cohort/parallel/gradients/host_gradients.h"

namespace cohort::parallel {

namespace {

template <typename Options>
CollectorOptions collector_options(const Options& options) {
  return {.first_bucket_bytes = options.first_bucket_bytes,
          .bucket_bytes = options.bucket_bytes,
          .allow_unused = options.allow_unused};
}

std::unique_ptr<GradientCollector> make_collector(collective::Group& group,
                                                  const NamedTensors& parameters,
                                                  CollectorOptions options,
                                                  std::unique_ptr<BucketExchange> exchange) {
  const collective::ShardRange own = exchange->own_shards();
  return std::make_unique<HostGradients>(group, parameters, std::move(options), std::move(exchange),
                                         own);
}

// Whether gradients are summed on the GPU where they are made.
bool stay_on_device(collective::Group& group, const NamedTensors& parameters,
                    const GradientSyncOptions& options) {
  if (group.size() > 1 && group.device() == nullptr) return false;
  if (options.compression != Compression::none || options.reducer || options.shares) return false;
  std::optional<torch::Device> device;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.requires_grad()) continue;
    if (!parameter.is_cuda() || (device && *device != parameter.device())) return false;
    device = parameter.device();
  }
  return device.has_value();
}

}  // namespace

GradientSync::GradientSync(collective::Group& group, const NamedTensors& parameters,
                           GradientSyncOptions options) {
  CollectorOptions collecting = collector_options(options);
  collecting.memory = options.memory;
  collecting.accumulates = options.accumulates;
  collecting.shares = options.shares;
  if (group.size() == 1 && options.shards <= 1 && !options.reducer)  // nothing to sum
    collector_ = std::make_unique<HostGradients>(group, parameters, std::move(collecting), nullptr,
                                                 collective::runs_of(1, 1, options.runs)[0]);
  else if (stay_on_device(group, parameters, options))
    collector_ = std::make_unique<DeviceGradients>(group, group.device(), parameters, options);
  else
    collector_ = make_collector(group, parameters, std::move(collecting),
                                std::make_unique<BucketAllReduce>(group, options));
}

GradientSync::GradientSync(collective::Group& group, const NamedTensors& parameters,
                           BucketSink sink, const GradientPushOptions& options)
    : collector_(make_collector(group, parameters, collector_options(options),
                                std::make_unique<BucketPush>(std::move(sink), options))) {}

GradientSync::~GradientSync() = default;

int GradientSync::first_shard() const { return collector_->own_shards().first; }
int GradientSync::shard_count() const { return collector_->own_shards().count; }
std::vector<BucketLayout> GradientSync::layouts() const { return collector_->layouts(); }
const std::vector<torch::Tensor>& GradientSync::parameters() const {
  return collector_->parameters();
}
const std::vector<std::string>& GradientSync::names() const { return collector_->names(); }
void GradientSync::begin_shard(int shard) { collector_->begin_shard(shard); }
void GradientSync::end_shard() { collector_->end_shard(); }
bool GradientSync::discard_shard() { return collector_->discard_shard(); }
void GradientSync::finish(Deadline deadline) { collector_->finish(deadline); }
bool GradientSync::can_be_captured() const { return collector_->can_be_captured(); }
std::chrono::nanoseconds GradientSync::waited() const { return collector_->waited(); }
void GradientSync::record_events(bool on) { collector_->record_events(on); }
std::vector<BucketEvent> GradientSync::take_events() { return collector_->take_events(); }

GradientSync::NoSync::NoSync(GradientSync& sync)
    : sync_(sync), before_(sync.collector_->set_no_sync(true)) {}
GradientSync::NoSync::~NoSync() { sync_.collector_->set_no_sync(before_); }

}  // namespace cohort::parallel
