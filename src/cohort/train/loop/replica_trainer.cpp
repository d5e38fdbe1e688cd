#include "cohort/train/loop/replica_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/parallel/tensors/random_scope.h"
#include "cohort/train/checkpoint/safetensors_layout.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {
namespace {

// How far a metric of a batch may be from that of its two halves: reduced precision rounds.
constexpr double kSumTolerance = 0.05;

// Part `i` of `parts` of `all` items: [first, first + count). Sizes differ by at most one.
std::pair<std::int64_t, std::int64_t> share(std::int64_t all, std::int64_t i, std::int64_t parts) {
  std::int64_t first = all * i / parts;
  return {first, all * (i + 1) / parts - first};
}

// Batch `i` of `data` in its own order, as evaluation sees it.
AnyBatch batch_in_order(const SampleSource& data, std::int64_t batch_size, std::int64_t i) {
  std::vector<std::int64_t> indices(
      static_cast<std::size_t>(std::min(batch_size, data.size() - i * batch_size)));
  std::iota(indices.begin(), indices.end(), i * batch_size);
  return data.load(indices, {});
}

}  // namespace

ReplicaTrainer::ReplicaTrainer(ReplicaSync& sync, Model model,
                               std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                               const TrainerOptions& options, bool shared_process)
    : sync_(sync),
      model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      loss_(std::move(loss)),
      options_(options),
      shared_process_(shared_process),
      shards_(options.virtual_shards > 0 && options.deterministic ? options.virtual_shards
                                                                  : sync.replica.size),
      rate_(*optimizer_),
      loss_scale_(options.precision),
      metric_is_sum_(options.metrics.size()),
      measured_(options.metrics.size()) {
  if (options.deterministic && replica().device.is_cuda()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  sync_.steps->attach({.module = model_.module(),
                       .optimizer = *optimizer_,
                       .loss_scale = loss_scale_,
                       .options = options_,
                       .shards = shards_});
}

StepResult ReplicaTrainer::step(const StepInfo& info, const std::function<AnyBatch()>& next) {
  model_.module().train();
  measured_.clear();
  StepSync& steps = *sync_.steps;
  steps.begin_step(info);
  const collective::ShardRange own = steps.own_shards();
  for (int i = 0; i < own.count; ++i) run_shard(info, own.first + i, next());
  StepResult result = steps.finish_step(info, measured_.read());
  if (!result.may_be_not_finite) check_finite(info, result.sums);
  return result;
}

void ReplicaTrainer::run_shard(const StepInfo& info, int shard, const AnyBatch& batch) {
  std::optional<parallel::RandomScope> random;
  if (options_.deterministic)
    random.emplace(shard_seed(options_.seed, info.epoch, info.step, shard), replica().device,
                   shared_process_);
  StepSync& steps = *sync_.steps;
  steps.begin_shard(shard);
  measured_.begin_item();
  const std::int64_t samples = batch.size();
  if (samples > 0) {
    const AnyBatch here = batch.to(replica().device);
    std::int64_t parts = std::min<std::int64_t>(options_.accumulate, samples);
    for (std::int64_t i = 0; i < parts; ++i) {
      auto [first, count] = share(samples, i, parts);
      std::optional<parallel::GradientSync::NoSync> more_follow;
      if (i + 1 < parts) more_follow.emplace(steps.gradients());
      run_micro_batch(info, (parts == 1 ? here : here.narrow(first, count)).as<Batch>());
    }
  }
  steps.end_shard(static_cast<double>(samples) / static_cast<double>(info.samples));
}

void ReplicaTrainer::run_micro_batch(const StepInfo& info, const Batch& batch) {
  auto& faults = membership::FaultPoints::of_this_process();
  faults.reach("forward", info.step);
  torch::Tensor output, loss;
  {
    AutocastScope autocast(options_.precision, replica().device);
    output = model_.forward(batch.data);
    loss = loss_(output, batch.target);
  }
  check_loss(loss);
  // Weighted by its samples, so that the sum over all micro-batches is the mean over the step's.
  double weight = static_cast<double>(batch.size()) / static_cast<double>(info.samples);
  faults.reach("backward", info.step);
  (loss * (weight * loss_scale_.scale())).backward();
  measure(output.detach(), batch.target, loss.detach());
}

void ReplicaTrainer::measure(const torch::Tensor& output, const torch::Tensor& target,
                             const torch::Tensor& loss) {
  torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> sums;
  for (std::size_t i = 0; i < options_.metrics.size(); ++i)
    sums.push_back(measure(i, output, target));
  measured_.add(static_cast<double>(target.size(0)), loss, std::move(sums));
}

torch::Tensor ReplicaTrainer::measure(std::size_t metric, const torch::Tensor& output,
                                      const torch::Tensor& target) {
  const auto sum_of = [&](const torch::Tensor& out, const torch::Tensor& wanted) {
    torch::Tensor sum = options_.metrics[metric].sum(out, wanted);
    if (sum.numel() == 1) return sum;
    throw InvalidInput(fmt::format("metric '{}' gave a tensor of shape {}, not one number",
                                   options_.metrics[metric].name, shape_text(sum.sizes().vec())),
                       {.advice = "Return the sum over the samples of the batch."});
  };
  torch::Tensor sum = sum_of(output, target);
  const std::int64_t samples = target.size(0), half = samples / 2;
  if (metric_is_sum_[metric] || half == 0 || output.size(0) != samples) return sum;
  const auto whole = sum.item<double>();
  if (whole == 0) return sum;
  const double parts = sum_of(output.slice(0, 0, half), target.slice(0, 0, half)).item<double>() +
                       sum_of(output.slice(0, half), target.slice(0, half)).item<double>();
  if (std::abs(whole - parts) > kSumTolerance * std::max(std::abs(whole), std::abs(parts)))
    throw InvalidInput(
        fmt::format("metric '{}' is no sum over samples: {} samples give {:.6g}, their two halves "
                    "{:.6g} together",
                    options_.metrics[metric].name, samples, whole, parts),
        {.advice = "Return the sum over the samples of the batch, not their mean; the Trainer "
                   "divides by their number."});
  metric_is_sum_[metric] = true;
  return sum;
}

void ReplicaTrainer::check_finite(const StepInfo& info, const Sums& sums) const {
  if (std::isfinite(sums.values[0])) return;
  throw Error(
      fmt::format("the loss of step {} is {}", info.step, sums.mean(0)),
      {.during = fmt::format("epoch {}", info.epoch),
       .advice = "Lower the learning rate, clip gradients (clip_norm), or look at the data."});
}

Sums ReplicaTrainer::evaluate(const SampleSource& data, std::int64_t batch_size,
                              std::int64_t limit) {
  torch::NoGradGuard no_gradients;
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  if (limit > 0) batches = std::min(batches, limit);
  const Range own = sync_.evaluation->share(batches);
  measured_.clear();
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const AnyBatch loaded = batch_in_order(data, batch_size, i).to(replica().device);
    const Batch& batch = loaded.as<Batch>();
    torch::Tensor output = forward(batch.data);
    const torch::Tensor loss = loss_(output, batch.target);
    check_loss(loss);
    measured_.begin_item();
    measure(output, batch.target, loss);
  }
  return sync_.evaluation->add_up(measured_.read(), own.begin, batches, options_.metrics.size());
}

torch::Tensor ReplicaTrainer::predict(const SampleSource& data, std::int64_t batch_size) {
  torch::NoGradGuard no_gradients;
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  const Range own = sync_.evaluation->share(batches);
  std::vector<torch::Tensor> outputs;
  for (std::int64_t i = own.begin; i < own.end; ++i)
    outputs.push_back(
        forward(batch_in_order(data, batch_size, i).as<Batch>().data.to(replica().device))
            .to(torch::kCPU));
  return sync_.evaluation->gather_rows(outputs);
}

torch::Tensor ReplicaTrainer::forward(const torch::Tensor& input) const {
  AutocastScope autocast(options_.precision, replica().device);
  return model_.forward(input);
}

}  // namespace cohort::train
