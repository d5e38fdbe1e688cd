#include "cohort/train/loop/replica_trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/cuda/wait_for_device.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/parallel/tensors/random_scope.h"
#include "cohort/train/checkpoint/safetensors_layout.h"
#include "cohort/train/loop/batches_in_order.h"
#include "cohort/train/loop/gpu_settings.h"
#include "cohort/train/model/optimizer_parameters.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {
namespace {

// Part `i` of `parts` of `all` items: [first, first + count). Sizes differ by at most one.
std::pair<std::int64_t, std::int64_t> share(std::int64_t all, std::int64_t i, std::int64_t parts) {
  std::int64_t first = all * i / parts;
  return {first, all * (i + 1) / parts - first};
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

double power_of_two_below(double number) { return std::exp2(std::floor(std::log2(number))); }

// The power of two that is nearest below the weight of a sample.
double weight_unit_of(const Sums& sums, double otherwise) {
  if (!(sums.weights[0] > 0) || !(sums.samples > 0)) return otherwise;
  return power_of_two_below(sums.weights[0] / sums.samples);
}

// StepResult::gradient_factor, as it is known before losses are read: where there are other replicas,
// weights are numbers of samples. `weight`: of all own losses.
double factor_of(const StepInfo& info, int replicas, double weight) {
  if (replicas > 1) return 1;
  return weight > 0 ? static_cast<double>(info.samples) * info.weight_unit / weight : 0;
}

// Each phase draws its own numbers.
std::uint64_t phase_seed(std::uint64_t seed, std::size_t phase) {
  return seed ^ (static_cast<std::uint64_t>(phase) * 0x9e3779b97f4a7c15ull);
}

constexpr std::int64_t kEvaluation = -1;  // in the place of an epoch, for random numbers
constexpr std::int64_t kReadEvery = 10;   // steps, on a GPU
constexpr std::chrono::seconds kEndingTime{5};

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
  if (replica().device.is_cuda()) prepare_for_gpu(model_.module(), options);
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
  if (graphs_) graphs_->reset();  // the optimizer's state is made anew where it is received
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

void ReplicaTrainer::begin_reading(std::int64_t every, bool one_shape, bool speaks) {
  const bool on_gpu = replica().device.is_cuda();
  read_every_ = every > 0 ? every : on_gpu ? kReadEvery : 1;
  if (graphs_ || !on_gpu) return;
  GraphedShards::Agree agree;
  if (replica().size > 1)
    agree = [this](bool mine) {
      std::int32_t all = mine ? 1 : 0;
      replica().group->all_reduce(std::span(&all, 1),
                                  {.op = collective::ReduceOp::minimum,
                                   .deadline = Deadline::after(options_.step_timeout)});
      return all == 1;
    };
  graphs_.emplace(replica().device, options_.cuda_graph, speaks, std::move(agree));
  if (!parallel::built_with_cuda())
    graphs_->switch_off("Cohort was built without CUDA's headers, which stand beside LibTorch");
  // A replica that meets another shape when the others replay could not tell them in time.
  if (replica().size > 1 && !one_shape && options_.cuda_graph == CudaGraph::automatic)
    graphs_->switch_off(
        "the data set does not say that its batches have one shape "
        "(SampleSource::has_one_shape), which several replicas need");
}

void ReplicaTrainer::end_reading() {
  // After an error steps may be under way that hold on to memory of other ranks.
  try {
    if (graphs_ && replica().group != nullptr)
      parallel::wait_for_device(replica().device, replica().group, Deadline::after(kEndingTime));
  } catch (const std::exception& error) {
    log::debug("recorded steps were not over at the end: {}", error.what());
  }
  graphs_.reset();
  unread_.reset();
}

std::vector<StepResult> ReplicaTrainer::step(const StepInfo& info, std::vector<double>& units,
                                             const std::function<AnyBatch()>& next) {
  model_.module().train();
  units.resize(phases_.size(), 1);
  std::vector<StepResult> results;
  with_refusals_named([&] {
    if (unread_) {
      results = run_unread(info, units.front(), next);
    } else {
      results.push_back(run_phases(info, units, next));
      defer_from_here(results.front());
    }
  });
  average_.update();
  return results;
}

// Every replica comes to the same answer: it depends on what all have in common, and on the sums.
void ReplicaTrainer::defer_from_here(const StepResult& first) {
  if (read_every_ == 1 && !graphs_) return;
  std::string reason;
  if (phases_.size() > 1)
    reason = "a step has several phases";
  else if (!phases_.front().sync->can_defer())
    reason =
        "its losses decide about the update (f16, --shard, embedding tables, servers, an "
        "elastic job)";
  else if (!own_weight_ || (replica().size > 1 && first.sums.weights[0] != first.sums.samples))
    reason = "its losses have weights of their own that the host must read";
  if (!reason.empty()) {
    read_every_ = 1;
    if (graphs_) graphs_->switch_off(reason);
    graphs_.reset();
    return;
  }
  if (graphs_ && before_update_) graphs_->switch_off("a callback changes gradients");
  unread_.emplace(replica().device, read_every_, replica().group, options_.step_timeout);
}

std::vector<StepResult> ReplicaTrainer::read_rest() {
  return unread_ ? read(unread_->read_all()) : std::vector<StepResult>();
}

std::vector<StepResult> ReplicaTrainer::read(const std::vector<UnreadSteps::ReadStep>& steps) {
  std::vector<StepResult> results;
  const TrainedPhase& phase = phases_.front();
  for (const UnreadSteps::ReadStep& step : steps) {
    StepResult result = phase.sync->read_step(step.info, step.sums);
    if (result.gradient_factor != step.gradient_factor)
      throw Error(fmt::format("the losses of step {} have other weights than those before it: the "
                              "sum of gradients was multiplied by {:.6g} instead of {:.6g}",
                              step.info.step, step.gradient_factor, result.gradient_factor),
                  {.advice = "Give every loss a weight from the start of the training, as a "
                             "tensor, or set FitOptions::read_every to 1."});
    if (step.gradient_norm) result.gradient_norm = *step.gradient_norm;
    check_finite(step.info, phase, result.sums);
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<StepResult> ReplicaTrainer::run_unread(const StepInfo& info, double& unit,
                                                   const std::function<AnyBatch()>& next) {
  TrainedPhase& phase = phases_.front();
  StepSync& steps = *phase.sync;
  StepInfo own_info = info;
  own_info.weight_unit = unit;
  UnreadSteps::Step done{.info = own_info, .measured = {}};
  if (graphs_ && graphs_->is_on() && !steps.can_be_recorded())
    graphs_->switch_off("the optimizer or what adds up gradients cannot be recorded");
  steps.begin_step(own_info);
  const collective::ShardRange own = steps.own_shards();
  double weight = 0;
  for (int i = 0; i < own.count; ++i) {
    const AnyBatch batch = next().to(replica().device);
    const auto random = random_numbers_of(phase, own_info, own.first + i);
    const GraphedShards::Shard shard = part_of_step(phase, own_info, i, weight);
    done.measured.push_back(graphs_ ? graphs_->run(shard, batch) : shard.compute(batch, false));
    const auto of_shard = done.measured.back().weight();
    COHORT_CHECK(of_shard.has_value(), "the losses of step {} have weights on a device",
                 own_info.step);
    weight += *of_shard;
  }
  if (own.count == 0) steps.finish_unread_step(1, false);
  done.gradient_factor = factor_of(own_info, replica().size, weight);
  if (replica().size == 1 && weight > 0)
    unit = power_of_two_below(weight / static_cast<double>(info.samples));
  auto ready = unread_->add(std::move(done));
  if (read_every_ == 1)
    for (auto& step : unread_->read_all()) ready.push_back(std::move(step));
  return read(ready);
}

// Of the own shard `number`: its losses and gradients, and after the last the update. `weight`: of the
// shards before it.
GraphedShards::Shard ReplicaTrainer::part_of_step(TrainedPhase& phase, const StepInfo& info,
                                                  int number, double& weight) {
  StepSync& steps = *phase.sync;
  const collective::ShardRange own = steps.own_shards();
  const int shard = own.first + number;
  const bool is_last = number + 1 == own.count;
  std::vector<double> constants{static_cast<double>(info.samples), info.weight_unit, weight};
  if (is_last && graphs_ && graphs_->is_on())
    for (const double constant : steps.recorded_constants()) constants.push_back(constant);
  const auto compute = [this, &phase, &steps, &weight, info, shard, is_last](const AnyBatch& batch,
                                                                             bool recorded) {
    measured_.clear();
    measured_.set_may_wait(!recorded);
    run_shard(phase, info, shard, batch);
    Measured measured = measured_.take();
    if (!is_last) return measured;
    const double all = weight + measured.weight().value_or(0);
    const torch::Tensor norm =
        steps.finish_unread_step(factor_of(info, replica().size, all), recorded);
    if (norm.defined()) measured.add_norm(norm);
    return measured;
  };
  return {.number = static_cast<std::size_t>(number),
          .constants = std::move(constants),
          .compute = compute,
          .begin_again = [&steps] { return steps.discard_shard(); },
          .before_replay =
              [&steps, is_last, step = info.step] {
                auto& faults = membership::FaultPoints::of_this_process();
                faults.reach("forward", step);
                faults.reach("backward", step);
                if (is_last) steps.before_replay();
              },
          .after_replay =
              [&steps, is_last] {
                if (is_last) steps.after_replay();
              }};
}

std::unique_ptr<parallel::RandomScope> ReplicaTrainer::random_numbers_of(const TrainedPhase& phase,
                                                                         const StepInfo& info,
                                                                         int shard) const {
  if (!options_.deterministic) return nullptr;
  return std::make_unique<parallel::RandomScope>(
      shard_seed(phase.seed, info.epoch, info.step, shard), replica().device, shared_process_);
}

StepResult ReplicaTrainer::run_phases(const StepInfo& info, std::vector<double>& units,
                                      const std::function<AnyBatch()>& next) {
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
    for (int i = 0; i < own.count; ++i) {
      const AnyBatch batch = batch_of(i);
      const auto random = random_numbers_of(phase, info, own.first + i);
      run_shard(phase, info, own.first + i, batch);
    }
  }
  const Measured measured = measured_.take();
  own_weight_ = measured.weight();
  StepResult result = steps.finish_step(info, measured.read());
  if (!result.may_be_not_finite) check_finite(info, phase, result.sums);
  return result;
}

void ReplicaTrainer::run_shard(TrainedPhase& phase, const StepInfo& info, int shard,
                               const AnyBatch& batch) {
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
  BatchesInOrder in_order(data, batch_size, own, replica().device, options_.channels_last);
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const AnyBatch batch = in_order.next();
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
  BatchesInOrder in_order(data, batch_size, own, replica().device, options_.channels_last);
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const AnyBatch batch = in_order.next();
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
