#include "cohort/train/replica_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/parallel/tensors/random_scope.h"
#include "cohort/train/checkpoint/safetensors_layout.h"
#include "cohort/train/checks.h"

namespace cohort::train {
namespace {

// How far a metric of a batch may be from that of its two halves: reduced precision rounds.
constexpr double kSumTolerance = 0.05;

// Part `i` of `parts` of `all` items: [first, first + count). Sizes differ by at most one.
std::pair<std::int64_t, std::int64_t> share(std::int64_t all, std::int64_t i, std::int64_t parts) {
  std::int64_t first = all * i / parts;
  return {first, all * (i + 1) / parts - first};
}

Batch part(const Batch& batch, std::int64_t first, std::int64_t count) {
  return {batch.data.narrow(0, first, count), batch.target.narrow(0, first, count)};
}

// Batch `i` of `data` in its own order, as evaluation sees it.
Batch batch_in_order(const Dataset& data, std::int64_t batch_size, std::int64_t i) {
  std::vector<std::int64_t> indices(
      static_cast<std::size_t>(std::min(batch_size, data.size() - i * batch_size)));
  std::iota(indices.begin(), indices.end(), i * batch_size);
  return get_rows(data, indices, {});
}

Batch to(const Batch& batch, torch::Device device) {
  return {batch.data.to(device), batch.target.to(device)};
}

}  // namespace

ReplicaTrainer::ReplicaTrainer(const parallel::Replica& replica, Exchange& exchange, Model model,
                               std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                               const TrainerOptions& options, bool shared_process)
    : replica_(replica),
      exchange_(exchange),
      model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      loss_(std::move(loss)),
      options_(options),
      shared_process_(shared_process),
      shards_(options.virtual_shards > 0 && options.deterministic ? options.virtual_shards
                                                                  : replica.size),
      rate_(*optimizer_),
      loss_scale_(options.precision),
      metric_is_sum_(options.metrics.size()) {
  if (options.deterministic && replica.device.is_cuda()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  exchange_.attach({.module = model_.module(),
                    .optimizer = *optimizer_,
                    .loss_scale = loss_scale_,
                    .options = options_,
                    .shards = shards_});
}

Sums ReplicaTrainer::step(const StepPlace& place, const std::function<Batch()>& next) {
  model_.module().train();
  std::vector<Sums> mine;
  exchange_.begin_step(place);
  const collective::ShardRange own = exchange_.own_shards();
  for (int i = 0; i < own.count; ++i) mine.push_back(run_shard(place, own.first + i, next()));
  Sums sums = exchange_.finish_step(place, mine);
  if (!exchange_.tolerates_not_finite()) check_finite(place, sums);
  return sums;
}

Sums ReplicaTrainer::run_shard(const StepPlace& place, int shard, const Batch& batch) {
  std::optional<parallel::RandomScope> random;
  if (options_.deterministic)
    random.emplace(shard_seed(options_.seed, place.epoch, place.step, shard), replica_.device,
                   shared_process_);
  exchange_.begin_shard(shard);
  std::int64_t samples = batch.size();
  Sums sums(options_.metrics.size());
  if (samples > 0) {
    Batch here = to(batch, replica_.device);
    std::int64_t parts = std::min<std::int64_t>(options_.accumulate, samples);
    for (std::int64_t i = 0; i < parts; ++i) {
      auto [first, count] = share(samples, i, parts);
      std::optional<parallel::GradientSync::NoSync> more_follow;
      if (i + 1 < parts) more_follow.emplace(exchange_.gradients());
      sums.add(run_micro_batch(place, parts == 1 ? here : part(here, first, count)));
    }
  }
  exchange_.end_shard(static_cast<double>(samples) / static_cast<double>(place.samples));
  return sums;
}

Sums ReplicaTrainer::run_micro_batch(const StepPlace& place, const Batch& batch) {
  auto& faults = membership::FaultPoints::of_this_process();
  faults.reach("forward", place.step);
  torch::Tensor output, loss;
  {
    AutocastScope autocast(options_.precision, replica_.device);
    output = model_.forward(batch.data);
    loss = loss_(output, batch.target);
  }
  check_loss(loss);
  // Weighted by its samples, so that the sum over all micro-batches is the mean over the step's.
  double weight = static_cast<double>(batch.size()) / static_cast<double>(place.samples);
  faults.reach("backward", place.step);
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
    sums.values[i + 1] = measure(i, output, target);
  return sums;
}

double ReplicaTrainer::measure(std::size_t metric, const torch::Tensor& output,
                               const torch::Tensor& target) {
  const auto sum_of = [&](const torch::Tensor& out, const torch::Tensor& wanted) {
    const torch::Tensor sum = options_.metrics[metric].sum(out, wanted);
    if (sum.numel() == 1) return sum.item<double>();
    throw InvalidInput(fmt::format("metric '{}' gave a tensor of shape {}, not one number",
                                   options_.metrics[metric].name, shape_text(sum.sizes().vec())),
                       {.advice = "Return the sum over the samples of the batch."});
  };
  const double whole = sum_of(output, target);
  const std::int64_t samples = target.size(0), half = samples / 2;
  if (metric_is_sum_[metric] || whole == 0 || half == 0 || output.size(0) != samples) return whole;
  const double parts = sum_of(output.slice(0, 0, half), target.slice(0, 0, half)) +
                       sum_of(output.slice(0, half), target.slice(0, half));
  if (std::abs(whole - parts) > kSumTolerance * std::max(std::abs(whole), std::abs(parts)))
    throw InvalidInput(
        fmt::format("metric '{}' is no sum over samples: {} samples give {:.6g}, their two halves "
                    "{:.6g} together",
                    options_.metrics[metric].name, samples, whole, parts),
        {.advice = "Return the sum over the samples of the batch, not their mean; the Trainer "
                   "divides by their number."});
  metric_is_sum_[metric] = true;
  return whole;
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
  const Range own = exchange_.share(batches);
  std::vector<Sums> mine;
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    Batch batch = to(batch_in_order(data, batch_size, i), replica_.device);
    torch::Tensor output = forward(batch.data);
    const torch::Tensor loss = loss_(output, batch.target);
    check_loss(loss);
    mine.push_back(measure(output, batch.target, loss));
  }
  return exchange_.add_up(mine, own.begin, batches);
}

torch::Tensor ReplicaTrainer::predict(const Dataset& data, std::int64_t batch_size) {
  torch::NoGradGuard no_gradients;
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  const Range own = exchange_.share(batches);
  std::vector<torch::Tensor> outputs;
  for (std::int64_t i = own.begin; i < own.end; ++i)
    outputs.push_back(
        forward(batch_in_order(data, batch_size, i).data.to(replica_.device)).to(torch::kCPU));
  return exchange_.gather_rows(outputs);
}

torch::Tensor ReplicaTrainer::forward(const torch::Tensor& input) const {
  AutocastScope autocast(options_.precision, replica_.device);
  return model_.forward(input);
}

}  // namespace cohort::train
