#include "cohort/parallel/distributed_optimizer.h"

#include <torch/csrc/autograd/engine.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "cohort/base/error.h"
#include "cohort/collective/work.h"
#include "cohort/parallel/gradient_hooks.h"
#include "cohort/parallel/ops.h"

namespace cohort::parallel {

namespace {

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
      if (parameter.requires_grad()) watch(parameter);
    sync.emplace(group, parameters, sync_options(options));
  }
  ~State() {
    for (auto& [parameter, hook] : hooks) parameter.remove_hook(hook);
  }

  void watch(torch::Tensor& parameter) {
    hooks.emplace_back(parameter, parameter.register_hook([this](const torch::Tensor&) {
      const std::lock_guard lock(mutex);
      if (!in_backward) begin_backward();
    }));
    if (!options.sparse_as_dense) return;
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
    if (backwards == allowed)
      throw InvalidInput(
          fmt::format("backward() was called {} times since the last step(), but "
                      "backward_passes_per_step is {}",
                      backwards + 1, allowed),
          {.advice = "Call step() after each backward(), or raise backward_passes_per_step."});
    if (backwards == 0) {
      if (options.uneven_data) report_busy();
      begin_sum();
    }
    if (backwards + 1 == allowed) no_sync.reset();
    in_backward = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] {
      const std::lock_guard lock(mutex);
      in_backward = false;
      ++backwards;
    });
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
    backwards = 0;
    synchronized = true;
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
  std::vector<std::pair<torch::Tensor, unsigned>> hooks;
  GradientHooks densifying;
  std::optional<GradientSync> sync;

  std::mutex mutex;  // of what hooks change; devices have autograd threads of their own
  bool in_backward = false;
  int backwards = 0;  // since the last sum
  std::optional<GradientSync::NoSync> no_sync;
  std::optional<collective::Work> reported;  // that this rank has data, for the sum under way
  bool synchronized = false;                 // .grad holds the sum, which no step has used
  bool skips = false;
};

DistributedOptimizer::DistributedOptimizer(collective::Group& group,
                                           torch::optim::Optimizer& optimizer,
                                           DistributedOptimizerOptions options)
    : state_(std::make_unique<State>(group, optimizer, std::move(options))) {}
DistributedOptimizer::~DistributedOptimizer() = default;

torch::optim::Optimizer& DistributedOptimizer::optimizer() { return state_->optimizer; }

void DistributedOptimizer::zero_grad() {
  if (state_->backwards > 0)
    throw InvalidInput(
        "zero_grad() between backward() and step() would lose gradients that are "
        "being averaged",
        {.advice = "Call it before the first backward() of a step."});
  state_->optimizer.zero_grad();
}

void DistributedOptimizer::synchronize(Deadline deadline) {
  if (state_->backwards == 0)
    throw InvalidInput("synchronize() without a backward() since the last one",
                       {.advice = "Call loss.backward() first; where a rank has no data left, "
                                  "join()."});
  state_->finish_sum(deadline);
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
  if (state_->backwards > 0)
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

}  // namespace cohort::parallel
