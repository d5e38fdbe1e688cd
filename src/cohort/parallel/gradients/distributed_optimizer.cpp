#include "cohort/parallel/gradients/distributed_optimizer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/collective/work.h"
#include "cohort/parallel/gradients/backward_watch.h"
#include "cohort/parallel/gradients/gradient_hooks.h"
#include "cohort/parallel/tensors/named_call.h"
#include "cohort/parallel/tensors/ops.h"
#include "cohort/parallel/tensors/parameter_checksum.h"

namespace cohort::parallel {

namespace {

constexpr std::chrono::minutes kStepTimeout{5};  // for the other ranks to come to the same point

// By which a change of a gradient is noticed: LibTorch's own count, which misses what is done to
// .data() (as clip_grad_norm_ does it), and some of its values.
struct GradientMark {
  std::int64_t version = -1;  // -1: no gradient
  std::uint32_t checksum = 0;
  bool operator==(const GradientMark&) const = default;
};

GradientMark mark_of(const torch::Tensor& gradient) {
  constexpr std::size_t kPlaces = 16, kBytes = 64;
  if (!gradient.defined()) return {};
  GradientMark mark{.version = static_cast<std::int64_t>(gradient._version())};
  if (!gradient.device().is_cpu() || gradient.layout() != torch::kStrided ||
      !gradient.unsafeGetTensorImpl()->is_non_overlapping_and_dense())
    return mark;
  const auto* bytes = static_cast<const char*>(gradient.data_ptr());
  const std::size_t size = gradient.nbytes();
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::size_t at = size / kPlaces * i;
    mark.checksum = crc32c(bytes + at, std::min(kBytes, size - at), mark.checksum);
  }
  return mark;
}

NamedTensors parameters_of(const torch::optim::Optimizer& optimizer, const NamedTensors& named) {
  std::unordered_map<const void*, std::string> names;
  for (const auto& [name, tensor] : named) names.emplace(tensor.unsafeGetTensorImpl(), name);
  NamedTensors parameters;
  for (const auto& group : optimizer.param_groups())
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = names.find(parameter.unsafeGetTensorImpl());
      parameters.emplace_back(
          found != names.end() ? found->second : fmt::format("parameter {}", parameters.size()),
          parameter);
    }
  if (parameters.empty())
    throw InvalidInput("the optimizer has no parameters",
                       {.advice = "Give the optimizer the model's parameters."});
  return parameters;
}

// The sum of a bucket with Horovod's scales around it.
BucketReducer predividing_reducer(double factor, Compression compression) {
  return [factor, compression](collective::Group& group, torch::Tensor values) {
    const ReduceOptions options{
        .op = ReduceOp::average, .pre_scale = 1 / factor, .post_scale = factor};
    if (compression == Compression::none) return all_reduce_(group, values, options);
    const torch::NoGradGuard no_grad;
    torch::Tensor sent =
        values.to(compression == Compression::f16 ? torch::kHalf : torch::kBFloat16);
    all_reduce_(group, sent, options);
    values.copy_(sent);
  };
}

GradientSyncOptions sync_options(const DistributedOptimizerOptions& options) {
  GradientSyncOptions sync;
  sync.bucket_bytes = options.bucket_bytes;
  sync.first_bucket_bytes = std::min(sync.first_bucket_bytes, sync.bucket_bytes);
  sync.allow_unused = options.allow_unused;
  if (options.gradient_predivide_factor == 1) {
    sync.average = options.average;
    sync.compression = options.compression;
  } else {
    sync.reducer = predividing_reducer(options.gradient_predivide_factor, options.compression);
  }
  return sync;
}

const DistributedOptimizerOptions& checked(const DistributedOptimizerOptions& options) {
  if (options.backward_passes_per_step < 1)
    throw InvalidInput(
        fmt::format("backward_passes_per_step is {}", options.backward_passes_per_step),
        {.advice = "Give 1 or more."});
  if (!(options.gradient_predivide_factor > 0))
    throw InvalidInput(
        fmt::format("gradient_predivide_factor is {}", options.gradient_predivide_factor),
        {.advice = "Give a positive number; 1 switches it off."});
  if (options.gradient_predivide_factor != 1 && !options.average)
    throw InvalidInput("gradient_predivide_factor is for averages, but `average` is false",
                       {.advice = "Leave one of them out."});
  return options;
}

}  // namespace

struct DistributedOptimizer::State {
  State(collective::Group& g, torch::optim::Optimizer& o, DistributedOptimizerOptions given)
      : group(g),
        optimizer(o),
        options(std::move(given)),
        parameters(parameters_of(o, checked(options).named_parameters)) {
    for (auto& [name, parameter] : parameters)
      if (parameter.requires_grad() && options.sparse_as_dense) densify(parameter);
    sync.emplace(group, parameters, sync_options(options));
    shares_gpu = find_shared_gpu();
    watch.emplace(
        parameters, [this] { begin_backward(); }, [this] { end_backward(); });
  }

  void densify(torch::Tensor& parameter) {
    // A hook before the accumulation may not change the layout. This one comes after it, and
    // before that of `sync`, which refuses sparse gradients, because it is added first.
    densifying.add(parameter, [&parameter] {
      const torch::NoGradGuard no_grad;
      torch::Tensor& gradient = parameter.mutable_grad();
      if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
    });
  }

  // Autograd is about to write the first gradient of a backward.
  void begin_backward() {
    const int allowed = options.backward_passes_per_step;
    if ((synchronized || backwards > 0) && gradients_were_dropped()) discard();
    if (synchronized || backwards == allowed)
      throw InvalidInput(
          fmt::format("backward() was called {} times since the last step(), but "
                      "backward_passes_per_step is {}",
                      allowed + 1, allowed),
          {.advice = "Call step() after each backward(), raise backward_passes_per_step, or give "
                     "the earlier gradients up with zero_grad()."});
    if (backwards == 0) {
      if (options.uneven_data) report_busy();
      begin_sum();
    }
    if (backwards + 1 == allowed) no_sync.reset();
  }

  void end_backward() {
    ++backwards;
    if (backwards == options.backward_passes_per_step && !shares_gpu)
      named_call("backward() under a DistributedOptimizer",
                 [this] { finish_sum(Deadline::after(kStepTimeout)); });
    else
      marks = marks_of_gradients();
  }

  void begin_sum() {
    sync->begin_shard(sync->first_shard());
    no_sync.emplace(*sync);
    synchronized = false;
  }

  void finish_sum(Deadline deadline) {
    no_sync.reset();
    sync->end_shard();
    sync->finish(deadline);
    if (reported) reported->wait(deadline);
    reported.reset();
    if (!std::exchange(compared, true)) expect_same_parameters(group, parameters);
    backwards = 0;
    synchronized = true;
  }

  void discard() {
    // Ranks that have joined follow every sum with a step.
    if (options.uneven_data && (synchronized || backwards > 0))
      throw InvalidInput(
          "with uneven_data gradients cannot be given up between backward() and step()",
          {.advice = "Call step() after each backward()."});
    if (backwards > 0) {
      no_sync.reset();
      if (!sync->discard_shard()) finish_sum(Deadline::after(kStepTimeout));
    }
    backwards = 0;
    synchronized = false;
  }

  // LibTorch runs all backwards of a GPU in a process on one thread. A rank that waited there for
  // another rank of the same GPU and process would wait for ever; such ranks wait in step() and
  // synchronize(). Collective where parameters are on a GPU.
  bool find_shared_gpu() {
    const auto on_gpu = std::find_if(parameters.begin(), parameters.end(), [](const auto& item) {
      return item.second.device().is_cuda();
    });
    if (on_gpu == parameters.end()) return false;
    const bool shared = find_sharing(group, parameters).gpu;
    if (shared && group.rank() == 0)
      log::warning(
          "several ranks of this process share {}: gradients are averaged in step() there. "
          "Call synchronize() before you change or read them",
          on_gpu->second.device().str());
    return shared;
  }

  // A module's own zero_grad() leaves undefined gradients behind.
  bool gradients_were_dropped() const {
    return std::none_of(parameters.begin(), parameters.end(),
                        [](const auto& item) { return item.second.grad().defined(); });
  }

  std::vector<GradientMark> marks_of_gradients() const {
    std::vector<GradientMark> result;
    for (const auto& [name, parameter] : parameters) result.push_back(mark_of(parameter.grad()));
    return result;
  }

  // With uneven_data every step begins, on every rank, by a count of the ranks that have data, and
  // its buckets come after: a rank that has joined learns from the count whether there are any.
  // The others need not know the count, so it does not hold up their backward.
  void report_busy() {
    reported = group.run_async([](collective::Group& on) {
      std::int64_t count = 1;
      on.all_reduce(std::span(&count, 1));
    });
  }
  std::int64_t count_busy(Deadline deadline) {
    std::int64_t count = 0;
    group.all_reduce(std::span(&count, 1), {.deadline = deadline});
    return count;
  }

  collective::Group& group;
  torch::optim::Optimizer& optimizer;
  DistributedOptimizerOptions options;
  NamedTensors parameters;
  GradientHooks densifying;
  std::optional<GradientSync> sync;

  bool shares_gpu = false;          // with another rank of this process
  int backwards = 0;                // since the last sum
  std::vector<GradientMark> marks;  // of .grad after the last backward, by parameter
  bool compared = false;            // the ranks' parameters, once
  std::optional<GradientSync::NoSync> no_sync;
  std::optional<collective::Work> reported;  // that this rank has data, for the sum under way
  bool synchronized = false;                 // .grad holds the sum, which no step has used
  bool skips = false;
  std::optional<BackwardWatch> watch;
};

DistributedOptimizer::DistributedOptimizer(collective::Group& group,
                                           torch::optim::Optimizer& optimizer,
                                           DistributedOptimizerOptions options)
    : state_(std::make_unique<State>(group, optimizer, std::move(options))) {}
DistributedOptimizer::~DistributedOptimizer() = default;

torch::optim::Optimizer& DistributedOptimizer::optimizer() { return state_->optimizer; }

void DistributedOptimizer::zero_grad() {
  state_->discard();
  state_->optimizer.zero_grad();
}

void DistributedOptimizer::discard() { state_->discard(); }

void DistributedOptimizer::synchronize(Deadline deadline) {
  if (state_->synchronized) return;
  if (state_->backwards == 0)
    throw InvalidInput("synchronize() without a backward() since the last step()",
                       {.advice = "Call loss.backward() first; where a rank has no data left, "
                                  "join()."});
  named_call("DistributedOptimizer::synchronize() or step()",
             [&] { state_->finish_sum(deadline); });
}

torch::Tensor DistributedOptimizer::step(torch::optim::Optimizer::LossClosure closure) {
  if (closure)
    return state_->optimizer.step([&] {
      torch::Tensor loss = closure();
      synchronize();
      state_->synchronized = false;
      return loss;
    });
  if (state_->backwards > 0) {
    if (state_->skips)
      throw InvalidInput("step() under skip_synchronize would use gradients of this rank alone",
                         {.advice = "Call synchronize() first."});
    if (!state_->shares_gpu && state_->marks != state_->marks_of_gradients())
      throw InvalidInput(
          fmt::format("gradients were changed after {} of {} backward passes, before they were "
                      "averaged over the ranks",
                      state_->backwards, state_->options.backward_passes_per_step),
          {.advice = "Call synchronize() first, then change them, then step()."});
    synchronize();
  } else if (!state_->synchronized) {
    throw InvalidInput("step() without a backward() since the last step()",
                       {.advice = "Call loss.backward() first; where a rank has no data left, "
                                  "join()."});
  }
  state_->synchronized = false;
  return state_->optimizer.step();
}

void DistributedOptimizer::join(Deadline deadline) {
  if (!state_->options.uneven_data)
    throw InvalidInput("join() without the option uneven_data",
                       {.advice = "Set it on every rank when the optimizer is made."});
  if (state_->backwards > 0 || state_->synchronized)
    throw InvalidInput("join() between backward() and step()", {.advice = "Call step() first."});
  while (state_->count_busy(deadline) > 0) {
    state_->begin_sum();
    state_->finish_sum(deadline);
    state_->synchronized = false;
    state_->optimizer.step();
  }
}

DistributedOptimizer::SkipSynchronize::SkipSynchronize(DistributedOptimizer& optimizer)
    : optimizer_(optimizer), before_(std::exchange(optimizer.state_->skips, true)) {}
DistributedOptimizer::SkipSynchronize::~SkipSynchronize() { optimizer_.state_->skips = before_; }

DistributedOptimizer::Pause::Pause(DistributedOptimizer& optimizer)
    : optimizer_(optimizer), before_(optimizer.state_->watch->pause(true)) {
  if (optimizer.state_->backwards == 0) return;
  optimizer.state_->watch->pause(before_);
  throw InvalidInput("pause() between the backward passes of one step",
                     {.advice = "Call step(), synchronize() or discard() first."});
}
DistributedOptimizer::Pause::~Pause() { optimizer_.state_->watch->pause(before_); }

}  // namespace cohort::parallel
