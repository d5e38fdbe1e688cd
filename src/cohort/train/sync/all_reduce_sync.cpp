#include "cohort/train/sync/all_reduce_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/parallel/cuda/wait_for_device.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/train/model/optimizer_parameters.h"
#include "cohort/train/sync/named.h"
#include "cohort/train/sync/one_pass_step.h"
#include "cohort/train/sync/sums_table.h"

namespace cohort::train {
namespace {

// The parameters that the optimizer updates, by the module's names.
parallel::NamedTensors updated_by(const torch::optim::Optimizer& optimizer,
                                  const torch::nn::Module& module) {
  std::unordered_set<const void*> updated = parameter_keys(optimizer);
  parallel::NamedTensors parameters;
  for (const auto& item : module.named_parameters())
    if (updated.erase(item.value().unsafeGetTensorImpl()) > 0)  // once, if it is shared
      parameters.emplace_back(item.key(), item.value());
  return parameters;
}

void multiply_gradients(const parallel::NamedTensors& parameters, double factor) {
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, parameter] : parameters)
    if (torch::Tensor gradient = parameter.grad(); gradient.defined()) gradient.mul_(factor);
}

}  // namespace

AllReduceSync::AllReduceSync(const parallel::Replica& replica, std::chrono::milliseconds timeout,
                             std::shared_ptr<parallel::BlockPool> own)
    : replica_(replica),
      timeout_(timeout),
      memory_(std::make_shared<parallel::GradientMemory>(*replica.group, std::move(own))) {}

void AllReduceSync::attach(const SyncedModel& model, std::vector<collective::ShardRange> runs,
                           std::function<void(std::size_t bucket)> on_bucket) {
  model_.emplace(model);
  runs_ = std::move(runs);
  const TrainerOptions& options = model.options;
  parameters_ = updated_by(model.optimizer, model.module);
  const auto mesh = parallel::Mesh::of_workers(replica_.size, options.shard);
  if (mesh.size("shard") > 1)
    sharded_.emplace(*replica_.group, mesh, model.module, parameters_, model.optimizer,
                     options.shard, timeout_);
  gradients_.emplace(
      *replica_.group, parameters_,
      parallel::GradientSyncOptions{.bucket_bytes = options.bucket_bytes,
                                    .shards = model.shards,
                                    .runs = runs_,
                                    .on_bucket = std::move(on_bucket),
                                    .any_order = !options.deterministic,
                                    .allow_unused = options.allow_unused,
                                    .compression = options.compression,
                                    .reducer = options.reducer,
                                    .shares = sharded_ ? sharded_->shares() : nullptr,
                                    .memory = memory_});
  buffers_.emplace(
      *replica_.group,
      options.deterministic ? named(model.module.named_buffers()) : parallel::NamedTensors{},
      model.shards, runs_);
  require_trainable(model.module);
  tables_.emplace(model.module);
  fused_.emplace(model.optimizer);
}

void AllReduceSync::require_trainable(torch::nn::Module& module) const {
  const std::string table = parallel::LocalTables::first_table(module);
  if (replica_.size > 1 && !table.empty())
    throw InvalidInput(fmt::format("embedding table '{}' cannot be shared by {} replicas that add "
                                   "up gradients among themselves",
                                   table, replica_.size),
                       {.advice = "Use --distribution_strategy parameter_server."});
}

collective::ShardRange AllReduceSync::own_shards() const {
  return {gradients_->first_shard(), gradients_->shard_count()};
}

void AllReduceSync::broadcast_from_first() {
  if (sharded_) sharded_->gather_parameters();
  parallel::broadcast_parameters(*replica_.group, model_->module, 0);
  if (sharded_)
    sharded_->broadcast_from_first(model_->module);
  else
    parallel::broadcast_optimizer_state(*replica_.group, model_->optimizer, 0);
}

void AllReduceSync::broadcast_buffers() {
  if (!model_->options.deterministic)
    parallel::broadcast_parameters(*replica_.group, named(model_->module.named_buffers()), 0);
}

void AllReduceSync::begin_step(const StepInfo&) {
  if (sharded_) sharded_->begin_forward();
}

void AllReduceSync::finish_training() {
  if (sharded_) sharded_->gather_parameters();
}

void AllReduceSync::begin_shard(int shard) {
  gradients_->begin_shard(shard);
  buffers_->begin_shard();
}

void AllReduceSync::end_shard(double weight) {
  gradients_->end_shard();
  buffers_->end_shard(weight);
}

StepResult AllReduceSync::finish_step(const StepInfo& info, std::span<const Sums> mine) {
  bool flag = false;
  StepResult result = reduce_step(info, mine, flag);
  apply_step(result);
  return result;
}

StepResult AllReduceSync::reduce_step(const StepInfo& info, std::span<const Sums> mine,
                                      bool& flag) {
  gradients_->finish(deadline());
  buffers_->reduce(deadline());
  // What is said of the step next is said of sums that are there.
  parallel::wait_for_device(replica_.device, replica_.group, deadline());
  return read_step(info, mine, flag);
}

StepResult AllReduceSync::read_step(const StepInfo& info, std::span<const Sums> mine) {
  bool flag = false;
  return read_step(info, mine, flag);
}

StepResult AllReduceSync::read_step(const StepInfo& info, std::span<const Sums> mine, bool& flag) {
  std::array<double, 2> flags{info.may_request ? 1.0 : 0.0, flag ? 1.0 : 0.0};
  const SumsTable table(replica_, mine, gradients_->first_shard(), model_->shards, model_->none,
                        flags, deadline());
  waited_ += table.waited();
  shard_samples_.clear();
  for (int shard = 0; shard < model_->shards; ++shard)
    shard_samples_.push_back(static_cast<std::uint32_t>(table.samples(shard)));
  flag = flags[1] > 0;
  StepResult result{
      .sums = table.total(), .steps_done = info.step + 1, .may_request = flags[0] > 0};
  const double weight = result.sums.weights[0];
  result.gradient_factor =
      weight > 0 ? static_cast<double>(info.samples) * info.weight_unit / weight : 0;
  return result;
}

void AllReduceSync::apply_step(StepResult& result) {
  buffers_->apply();
  const double factor = result.gradient_factor;
  if (factor == 0) return tables_->drop_gradients();
  if (sharded_) sharded_->begin_step();
  if (factor != 1) multiply_gradients(sharded_ ? sharded_->updated() : parameters_, factor);
  const double scale = model_->loss_scale.scale();
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  if (sharded_ ? sharded_->unscale(model_->loss_scale) : model_->loss_scale.unscale(parameters_)) {
    if (model_->before_update) model_->before_update();
    const double limit = model_->options.clip_norm > 0 ? model_->options.clip_norm : kNoLimit;
    if (limit < kNoLimit || model_->options.log_gradient_norm)
      result.gradient_norm =
          sharded_ ? sharded_->clip(limit) : parallel::clip_gradients(parameters_, limit);
    if (sharded_)
      sharded_->step();
    else
      update();
    tables_->update(scale / factor);
  } else {
    tables_->drop_gradients();
  }
}

void AllReduceSync::update() {
  if (replica_.device.is_cuda() && fused_->applies())
    fused_->step();
  else
    step_in_one_pass(model_->optimizer);
}

bool AllReduceSync::can_defer() const {
  return !model_->loss_scale.is_active() && !sharded_ && tables_->empty();
}

torch::Tensor AllReduceSync::finish_unread_step(double gradient_factor, bool recorded) {
  gradients_->finish(deadline());
  buffers_->reduce(deadline());
  buffers_->apply();
  if (gradient_factor == 0) return {};  // nothing had a weight
  if (gradient_factor != 1) multiply_gradients(parameters_, gradient_factor);
  if (model_->before_update) model_->before_update();
  const TrainerOptions& options = model_->options;
  torch::Tensor norm;
  if (options.clip_norm > 0 || options.log_gradient_norm)
    norm = parallel::clip_gradients_on_device(
        parameters_,
        options.clip_norm > 0 ? options.clip_norm : std::numeric_limits<double>::infinity());
  if (recorded)
    fused_->enqueue();
  else
    update();
  return norm;
}

bool AllReduceSync::can_be_recorded() {
  return can_defer() && replica_.device.is_cuda() && fused_->applies() &&
         gradients_->can_be_captured() && buffers_->can_be_captured();
}

// A replica that is alone sees by the addresses that a callback has replaced state or parameters.
// Several would not see it alike: the first of a broadcast keeps what it has.
std::vector<double> AllReduceSync::recorded_constants() const {
  std::vector<double> constants = fused_->constants();
  if (replica_.size == 1) constants.push_back(fused_->addresses());
  return constants;
}

bool AllReduceSync::discard_shard() {
  if (!gradients_->discard_shard()) return false;
  buffers_->discard_step();
  return true;
}

std::vector<std::uint16_t> AllReduceSync::shard_owners() const {
  std::vector<std::uint16_t> owners(static_cast<std::size_t>(model_->shards));
  std::uint16_t rank = 0;
  for (const auto& run : collective::runs_of(replica_.size, model_->shards, runs_))
    std::fill_n(owners.begin() + run.first, run.count, rank++);
  return owners;
}

parallel::TableImages AllReduceSync::gather_state() {
  if (sharded_) sharded_->gather_state();
  return tables_->images();
}

void AllReduceSync::release_state() {
  if (sharded_) sharded_->release_state();
}

void AllReduceSync::add_table_sizes(Logs& logs) const {
  for (const auto& size : tables_->sizes())
    logs["rows_" + size.table] = static_cast<double>(size.rows);
}

}  // namespace cohort::train
