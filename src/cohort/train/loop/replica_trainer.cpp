#include "cohort/train/loop/replica_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/parallel/tensors/random_scope.h"
#include "cohort/train/checkpoint/safetensors_layout.h"
#include "cohort/train/model/optimizer_parameters.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {
namespace {

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

// While it lives, what a phase does not update needs no gradients: backward does not compute them.
class WithoutGradients {
 public:
  explicit WithoutGradients(const std::vector<torch::Tensor>& parameters) {
    for (const torch::Tensor& parameter : parameters)
      if (parameter.requires_grad()) {
        parameter.set_requires_grad(false);
        parameters_.push_back(parameter);
      }
  }
  ~WithoutGradients() {
    for (const torch::Tensor& parameter : parameters_) parameter.set_requires_grad(true);
  }
  WithoutGradients(const WithoutGradients&) = delete;
  WithoutGradients& operator=(const WithoutGradients&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
};

// The power of two that is nearest below the weight of a sample.
double weight_unit_of(const Sums& sums, double otherwise) {
  if (!(sums.weights[0] > 0) || !(sums.samples > 0)) return otherwise;
  return std::exp2(std::floor(std::log2(sums.weights[0] / sums.samples)));
}

// Each phase draws its own numbers.
std::uint64_t phase_seed(std::uint64_t seed, std::size_t phase) {
  return seed ^ (static_cast<std::uint64_t>(phase) * 0x9e3779b97f4a7c15ull);
}

constexpr std::int64_t kEvaluation = -1;  // in the place of an epoch, for random numbers

}  // namespace

ReplicaTrainer::ReplicaTrainer(ReplicaSync& sync, Model model, const std::vector<Phase>& phases,
                               const TrainerOptions& options, bool shared_process)
    : sync_(sync),
      model_(std::move(model)),
      options_(options),
      shared_process_(shared_process),
      shards_(options.virtual_shards > 0 && options.deterministic ? options.virtual_shards
                                                                  : sync.replica.size),
      measured_(options.metrics),
      average_(model_.module(), options.ema) {
  if (options.deterministic && replica().device.is_cuda()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  std::vector<torch::optim::Optimizer*> optimizers;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    phases_.push_back({.name = phase.name,
                       .optimizer = phase.optimizer,
                       .step = phase.step,
                       .loss_scale = std::make_unique<LossScale>(options.precision),
                       .sync = &sync_.phase(i),
                       .others = parameters_without(*phase.optimizer),
                       .seed = phase_seed(options.seed, i)});
    optimizers.push_back(phase.optimizer.get());
  }
  rate_ = std::make_unique<LearningRate>(optimizers);
  for (std::size_t i = 0; i < phases_.size(); ++i)
    phases_[i].sync->attach({.module = model_.module(),
                             .optimizer = *phases_[i].optimizer,
                             .loss_scale = *phases_[i].loss_scale,
                             .options = options_,
                             .shards = shards_,
                             .none = Sums(i == 0 ? options_.metrics : std::vector<Metric>()),
                             .before_update = [this, i] {
                               if (before_update_) before_update_(i);
                             }});
}

void ReplicaTrainer::broadcast_gradients(std::size_t phase) {
  parallel::NamedTensors gradients;
  for (const torch::Tensor& parameter : parameters_of(optimizer(phase)))
    if (parameter.grad().defined())
      gradients.emplace_back(fmt::format("gradient {}", gradients.size()), parameter.grad());
  parallel::broadcast_parameters(*replica().group, gradients);
}

void ReplicaTrainer::broadcast_from_first() {
  sync_.broadcast_from_first();
  parallel::NamedTensors averages;
  for (const auto& [name, tensor] : average_.tensors()) averages.emplace_back(name, tensor);
  if (!averages.empty()) parallel::broadcast_parameters(*replica().group, averages);
}

// None with parameter servers, which keep all parameters the same everywhere.
std::vector<torch::Tensor> ReplicaTrainer::parameters_without(
    const torch::optim::Optimizer& optimizer) const {
  std::vector<torch::Tensor> others;
  if (replica().servers != nullptr) return others;
  const auto own = parameter_keys(optimizer);
  for (const torch::Tensor& parameter : model_.module().parameters())
    if (!own.contains(parameter.unsafeGetTensorImpl())) others.push_back(parameter);
  return others;
}

std::vector<std::string> ReplicaTrainer::phase_names() const {
  std::vector<std::string> names;
  if (phases_.size() > 1)
    for (const TrainedPhase& phase : phases_) names.push_back(phase.name);
  return names;
}

Logs ReplicaTrainer::logs(const Sums& sums) const {
  return sums.logs(options_.metrics, "", phase_names());
}

StepResult ReplicaTrainer::step(const StepInfo& info, std::vector<double>& units,
                                const std::function<AnyBatch()>& next) {
  model_.module().train();
  units.resize(phases_.size(), 1);
  std::vector<AnyBatch> kept;  // on the device, for the phases after the first
  const auto first_batch = [&](int) {
    AnyBatch batch = next().to(replica().device);
    if (phases_.size() > 1) kept.push_back(batch);
    return batch;
  };
  const auto kept_batch = [&](int i) { return kept[static_cast<std::size_t>(i)]; };
  StepResult result;
  Sums sums = no_sums();
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    StepInfo own = info;
    own.weight_unit = units[i];
    StepResult done = i == 0 ? run_phase(i, own, first_batch) : run_phase(i, own, kept_batch);
    units[i] = weight_unit_of(done.sums, units[i]);
    sums.set_loss(i, done.sums);
    if (i == 0) {
      sums.set_metrics(done.sums);
      result = std::move(done);
    }
  }
  result.sums = std::move(sums);
  average_.update();
  return result;
}

StepResult ReplicaTrainer::run_phase(std::size_t number, const StepInfo& info,
                                     const std::function<AnyBatch(int)>& batch_of) {
  TrainedPhase& phase = phases_[number];
  measured_.clear(number == 0 ? MeasuredSums::What::all : MeasuredSums::What::loss);
  StepSync& steps = *phase.sync;
  steps.begin_step(info);
  {
    const WithoutGradients without(phase.others);
    const collective::ShardRange own = steps.own_shards();
    for (int i = 0; i < own.count; ++i) run_shard(phase, info, own.first + i, batch_of(i));
  }
  StepResult result = steps.finish_step(info, measured_.read());
  if (!result.may_be_not_finite) check_finite(info, phase, result.sums);
  return result;
}

void ReplicaTrainer::run_shard(TrainedPhase& phase, const StepInfo& info, int shard,
                               const AnyBatch& batch) {
  std::optional<parallel::RandomScope> random;
  if (options_.deterministic)
    random.emplace(shard_seed(phase.seed, info.epoch, info.step, shard), replica().device,
                   shared_process_);
  StepSync& steps = *phase.sync;
  steps.begin_shard(shard);
  measured_.begin_item();
  const std::int64_t samples = batch.size();
  if (samples > 0) {
    std::int64_t parts = std::min<std::int64_t>(options_.accumulate, samples);
    for (std::int64_t i = 0; i < parts; ++i) {
      auto [first, count] = share(samples, i, parts);
      std::optional<parallel::GradientSync::NoSync> more_follow;
      if (i + 1 < parts) more_follow.emplace(steps.gradients());
      run_micro_batch(phase, info, parts == 1 ? batch : batch.narrow(first, count));
    }
  }
  steps.end_shard(static_cast<double>(samples) / static_cast<double>(info.samples));
}

void ReplicaTrainer::run_micro_batch(TrainedPhase& phase, const StepInfo& info,
                                     const AnyBatch& batch) {
  auto& faults = membership::FaultPoints::of_this_process();
  faults.reach("forward", info.step);
  Loss loss;
  {
    const Autocast autocast(options_.precision, replica().device);
    loss = phase.step(model_, batch);
  }
  check_loss(loss, loss.weight.number() != 0.0);
  faults.reach("backward", info.step);
  // Weighted, so that the sum over all micro-batches is the step's mean but for one factor, which
  // is 1 where samples are what counts.
  const double of = static_cast<double>(info.samples) * info.weight_unit;
  const double scale = phase.loss_scale->scale();
  if (const torch::Tensor& weight = loss.weight.tensor(); weight.defined()) {
    // What has no weight may be no number.
    const torch::Tensor mean = loss.mean.reshape({});
    const torch::Tensor factor = (weight.to(torch::kFloat64) / of * scale).to(mean.scalar_type());
    (torch::where(factor > 0, mean, torch::zeros_like(mean)) * factor).backward();
  } else {
    const double number = loss.weight.number().value_or(static_cast<double>(batch.size()));
    if (number > 0) (loss.mean * (number / of * scale)).backward();
  }
  measured_.add(loss, batch.size());
}

void ReplicaTrainer::check_finite(const StepInfo& info, const TrainedPhase& phase,
                                  const Sums& sums) const {
  if (std::isfinite(sums.values[0])) return;
  const std::string of = phases_.size() > 1 ? fmt::format(" of phase '{}'", phase.name) : "";
  throw Error(
      fmt::format("the loss{} of step {} is {}", of, info.step, sums.loss()),
      {.during = fmt::format("epoch {}", info.epoch),
       .advice = "Lower the learning rate, clip gradients (clip_norm), or look at the data."});
}

Evaluated ReplicaTrainer::evaluate(const SampleSource& data, std::int64_t batch_size,
                                   const std::string& prefix, std::int64_t limit) {
  torch::NoGradGuard no_gradients;
  const WeightAverage::Scope averaged(average_);
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  if (limit > 0) batches = std::min(batches, limit);
  const Range own = sync_.evaluation->share(batches);
  using What = MeasuredSums::What;
  if (options_.evaluation_step) {
    const Sums sums = evaluate(options_.evaluation_step, What::all, data, batch_size, own, batches);
    return {sums.logs(options_.metrics, prefix), sums.tensors(options_.metrics, prefix)};
  }
  Sums sums = no_sums();
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const Sums own_sums =
        evaluate(phases_[i].step, i == 0 ? What::all : What::loss, data, batch_size, own, batches);
    sums.set_loss(i, own_sums);
    if (i == 0) sums.set_metrics(own_sums);
  }
  return {sums.logs(options_.metrics, prefix, phase_names()),
          sums.tensors(options_.metrics, prefix)};
}

Sums ReplicaTrainer::evaluate(const TrainingStep& step, MeasuredSums::What what,
                              const SampleSource& data, std::int64_t batch_size, Range own,
                              std::int64_t batches) {
  measured_.clear(what, MeasuredSums::CountsIn::first_item);
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const AnyBatch batch = batch_in_order(data, batch_size, i).to(replica().device);
    const auto random = random_numbers_of(i);
    const Autocast autocast(options_.precision, replica().device);
    const Loss loss = step(model_, batch);
    check_loss(loss, false);
    measured_.begin_item();
    measured_.add(loss, batch.size());
  }
  return sync_.evaluation->add_up(measured_.read(), own.begin, batches, measured_.none());
}

torch::Tensor ReplicaTrainer::predict(const SampleSource& data, const Prediction& prediction,
                                      std::int64_t batch_size) {
  torch::NoGradGuard no_gradients;
  const WeightAverage::Scope averaged(average_);
  model_.module().eval();
  std::int64_t batches = (data.size() + batch_size - 1) / batch_size;
  const Range own = sync_.evaluation->share(batches);
  std::vector<torch::Tensor> outputs;
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const AnyBatch batch = batch_in_order(data, batch_size, i).to(replica().device);
    const auto random = random_numbers_of(i);
    const Autocast autocast(options_.precision, replica().device);
    outputs.push_back(prediction(model_, batch).to(torch::kCPU));
    check_prediction(outputs.back(), batch.size());
  }
  return sync_.evaluation->gather_rows(outputs);
}

// Of an evaluation's batch: the same on any worker.
std::unique_ptr<parallel::RandomScope> ReplicaTrainer::random_numbers_of(std::int64_t batch) const {
  if (!options_.deterministic) return nullptr;
  return std::make_unique<parallel::RandomScope>(shard_seed(options_.seed, kEvaluation, batch, 0),
                                                 replica().device, shared_process_);
}

}  // namespace cohort::train
