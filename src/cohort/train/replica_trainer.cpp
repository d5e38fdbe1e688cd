#include "cohort/train/replica_trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cohort/base/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/parallel/broadcast_state.h"
#include "cohort/parallel/ops.h"
#include "cohort/parallel/random_scope.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::train {
namespace {

parallel::NamedTensors named(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  parallel::NamedTensors result;
  for (const auto& item : tensors) result.emplace_back(item.key(), item.value());
  return result;
}

parallel::GradientSyncOptions sync_options(const TrainerOptions& options, int shards) {
  return {.bucket_bytes = options.bucket_bytes,
          .shards = shards,
          .allow_unused = options.allow_unused,
          .compression = options.compression,
          .reducer = options.reducer};
}

// Rank r of n takes the items [first, first + count) of `all`, in order; nobody's share differs
// from another's by more than one.
std::pair<std::int64_t, std::int64_t> share(std::int64_t all, int rank, int ranks) {
  std::int64_t first = all * rank / ranks;
  return {first, all * (rank + 1) / ranks - first};
}

Batch part(const Batch& batch, std::int64_t first, std::int64_t count) {
  return {batch.data.narrow(0, first, count), batch.target.narrow(0, first, count)};
}

// Batch `i` of `data` in its own order, as evaluation sees it.
Batch batch_in_order(const Dataset& data, std::int64_t batch_size, std::int64_t i) {
  std::vector<std::int64_t> indices(
      static_cast<std::size_t>(std::min(batch_size, data.size() - i * batch_size)));
  std::iota(indices.begin(), indices.end(), i * batch_size);
  return data.get(indices, {});
}

Batch to(const Batch& batch, torch::Device device) {
  return {batch.data.to(device), batch.target.to(device)};
}

// All ranks' rows, in rank order. A rank that has none learns from the others what rows look like.
torch::Tensor gather_rows(collective::Group& group, const std::vector<torch::Tensor>& rows) {
  torch::Tensor mine = rows.empty() ? torch::Tensor() : torch::cat(rows);
  nlohmann::json row;
  if (mine.defined())
    row = {{"sizes", mine.sizes().slice(1).vec()}, {"type", static_cast<int>(mine.scalar_type())}};
  for (const std::string& text : parallel::gather_texts(group, row.dump())) {
    auto other = nlohmann::json::parse(text);
    if (mine.defined() || other.is_null()) continue;
    auto sizes = other.at("sizes").get<std::vector<std::int64_t>>();
    sizes.insert(sizes.begin(), 0);
    mine = torch::empty(sizes, static_cast<torch::Dtype>(other.at("type").get<int>()));
  }
  return mine.defined() ? parallel::all_gather(group, mine) : torch::empty({0});
}

}  // namespace

ReplicaTrainer::ReplicaTrainer(const parallel::Replica& replica, Model model,
                               std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                               const TrainerOptions& options, bool shared_process)
    : replica_(replica),
      model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      loss_(std::move(loss)),
      options_(options),
      shared_process_(shared_process),
      shards_(options.virtual_shards > 0 && options.deterministic ? options.virtual_shards
                                                                  : replica.size),
      parameters_(named(model_.module().named_parameters())),
      gradients_(*replica.group, parameters_, sync_options(options, shards_)),
      buffers_(
          *replica.group,
          options.deterministic ? named(model_.module().named_buffers()) : parallel::NamedTensors{},
          shards_),
      rate_(*optimizer_),
      loss_scale_(options.precision) {
  if (options.deterministic && replica.device.is_cuda()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
}

void ReplicaTrainer::take_values_of_first() {
  parallel::broadcast_parameters(*replica_.group, model_.module(), 0);
  parallel::broadcast_optimizer_state(*replica_.group, *optimizer_, 0);
}

void ReplicaTrainer::take_buffers_of_first() {
  if (!options_.deterministic)
    parallel::broadcast_parameters(*replica_.group, named(model_.module().named_buffers()), 0);
}

Sums ReplicaTrainer::step(const StepPlace& place, const std::function<Batch()>& next) {
  model_.module().train();
  std::vector<Sums> mine;
  for (int i = 0; i < shard_count(); ++i)
    mine.push_back(run_shard(place, first_shard() + i, next()));
  gradients_.finish(deadline());
  buffers_.finish(deadline());
  if (loss_scale_.unscale(parameters_)) {
    if (options_.clip_norm > 0) parallel::clip_gradients(parameters_, options_.clip_norm);
    optimizer_->step();
  }
  Sums sums = add_up(mine, first_shard(), shards_);
  check_finite(place, sums);
  return sums;
}

Sums ReplicaTrainer::run_shard(const StepPlace& place, int shard, const Batch& batch) {
  std::optional<parallel::RandomScope> random;
  if (options_.deterministic)
    random.emplace(shard_seed(options_.seed, place.epoch, place.step, shard), replica_.device,
                   shared_process_);
  gradients_.begin_shard(shard);
  buffers_.begin_shard();
  std::int64_t samples = batch.size();
  Sums sums(options_.metrics.size());
  if (samples > 0) {
    Batch here = to(batch, replica_.device);
    std::int64_t parts = std::min<std::int64_t>(options_.accumulate, samples);
    for (std::int64_t i = 0; i < parts; ++i) {
      auto [first, count] = share(samples, static_cast<int>(i), static_cast<int>(parts));
      std::optional<parallel::GradientSync::NoSync> more_follow;
      if (i + 1 < parts) more_follow.emplace(gradients_);
      sums.add(run_micro_batch(place, parts == 1 ? here : part(here, first, count)));
    }
  }
  gradients_.end_shard();
  buffers_.end_shard(static_cast<double>(samples) / static_cast<double>(place.samples));
  return sums;
}

Sums ReplicaTrainer::run_micro_batch(const StepPlace& place, const Batch& batch) {
  torch::Tensor output, loss;
  {
    AutocastScope autocast(options_.precision, replica_.device);
    output = model_.forward(batch.data);
    loss = loss_(output, batch.target);
  }
  // Weighted by its samples, so that the sum over all micro-batches is the mean over the step's.
  double weight = static_cast<double>(batch.size()) / static_cast<double>(place.samples);
  (loss * (weight * loss_scale_.scale())).backward();
  return measure(output.detach(), batch.target, loss.detach());
}

Sums ReplicaTrainer::measure(const torch::Tensor& output, const torch::Tensor& target,
                             const torch::Tensor& loss) {
  torch::NoGradGuard no_gradients;
  Sums sums(options_.metrics.size());
  sums.samples = static_cast<double>(target.size(0));
  sums.values[0] = loss.item<double>() * sums.samples;
  for (std::size_t i = 0; i < options_.metrics.size(); ++i)
    sums.values[i + 1] = options_.metrics[i].sum(output, target).item<double>();
  return sums;
}

// `mine` are the items [first, first + mine.size()) of `all`; every replica has some. All are
// gathered (each is zero but at its owner) and added in their order: it does not matter who had
// which.
Sums ReplicaTrainer::add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t all) {
  std::size_t width = options_.metrics.size() + 2;
  std::vector<double> table(static_cast<std::size_t>(all) * width);
  auto row = table.begin() + first * static_cast<std::int64_t>(width);
  for (const Sums& sums : mine) {
    row = std::copy(sums.values.begin(), sums.values.end(), row);
    *row++ = sums.samples;
  }
  if (replica_.size > 1) {
    auto begin = std::chrono::steady_clock::now();
    replica_.group->all_reduce(std::span(table), {.deadline = deadline()});
    waited_ += std::chrono::steady_clock::now() - begin;
  }
  Sums total(options_.metrics.size());
  for (std::int64_t i = 0; i < all; ++i) {
    Sums sums(options_.metrics.size());
    auto from = table.begin() + i * static_cast<std::int64_t>(width);
    std::copy_n(from, width - 1, sums.values.begin());
    sums.samples = from[static_cast<std::int64_t>(width) - 1];
    total.add(sums);
  }
  return total;
}

void ReplicaTrainer::check_finite(const StepPlace& place, const Sums& sums) const {
  if (std::isfinite(sums.values[0])) return;
  throw Error(
      fmt::format("the loss of step {} is {}", place.step, sums.mean(0)),
      {.during = fmt::format("epoch {}", place.epoch),
       .advice = "Lower the learning rate, clip gradients (clip_norm), or look at the data."});
}

Sums ReplicaTrainer::evaluate(const Dataset& data, std::int64_t batch_size, std::int64_t limit) {
  torch::NoGradGuard no_gradients;
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  if (limit > 0) batches = std::min(batches, limit);
  auto [first, count] = share(batches, replica_.rank, replica_.size);
  std::vector<Sums> mine;
  for (std::int64_t i = first; i < first + count; ++i) {
    Batch batch = to(batch_in_order(data, batch_size, i), replica_.device);
    torch::Tensor output = forward(batch.data);
    mine.push_back(measure(output, batch.target, loss_(output, batch.target)));
  }
  return add_up(mine, first, batches);
}

torch::Tensor ReplicaTrainer::predict(const Dataset& data, std::int64_t batch_size) {
  torch::NoGradGuard no_gradients;
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  auto [first, count] = share(batches, replica_.rank, replica_.size);
  std::vector<torch::Tensor> outputs;
  for (std::int64_t i = first; i < first + count; ++i)
    outputs.push_back(
        forward(batch_in_order(data, batch_size, i).data.to(replica_.device)).to(torch::kCPU));
  return gather_rows(*replica_.group, outputs);
}

torch::Tensor ReplicaTrainer::forward(const torch::Tensor& input) const {
  AutocastScope autocast(options_.precision, replica_.device);
  return model_.forward(input);
}

}  // namespace cohort::train
