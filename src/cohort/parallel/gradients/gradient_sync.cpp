#include "cohort/parallel/gradients/gradient_sync.h"

#include "cohort/parallel/gradients/gradient_state.h"

namespace cohort::parallel {

GradientSync::GradientSync(collective::Group& group, NamedTensors parameters,
                           GradientSyncOptions options)
    : state_(std::make_unique<State>(group, std::move(parameters), std::move(options))) {}

GradientSync::~GradientSync() = default;

int GradientSync::first_shard() const { return state_->own_shards().first; }
int GradientSync::shard_count() const { return state_->own_shards().count; }
std::vector<BucketLayout> GradientSync::layouts() const { return state_->layouts(); }
const std::vector<torch::Tensor>& GradientSync::parameters() const { return state_->parameters(); }
const std::vector<std::string>& GradientSync::names() const { return state_->names(); }
void GradientSync::begin_shard(int shard) { state_->begin_shard(shard); }
void GradientSync::end_shard() { state_->end_shard(); }
bool GradientSync::discard_shard() { return state_->discard_shard(); }
void GradientSync::finish(Deadline deadline) { state_->finish(deadline); }
std::chrono::nanoseconds GradientSync::waited() const { return state_->waited(); }
void GradientSync::record_events(bool on) { state_->record_events(on); }
std::vector<GradientSync::BucketEvent> GradientSync::take_events() { return state_->take_events(); }

GradientSync::NoSync::NoSync(GradientSync& sync)
    : sync_(sync), before_(sync.state_->set_no_sync(true)) {}
GradientSync::NoSync::~NoSync() { sync_.state_->set_no_sync(before_); }

}  // namespace cohort::parallel
