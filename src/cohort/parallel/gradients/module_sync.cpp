#include "cohort/parallel/gradients/module_sync.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/backward_watch.h"
#include "cohort/parallel/gradients/buffer_sync.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/parallel/tensors/named_call.h"
#include "cohort/parallel/tensors/random_scope.h"

namespace cohort::parallel {

namespace {

constexpr const char* kBackwardCall = "backward() under a DistributedDataParallel";

NamedTensors listed(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  NamedTensors result;
  for (const auto& item : tensors) result.emplace_back(item.key(), item.value());
  return result;
}

DistributedDataParallelOptions checked(const DistributedDataParallelOptions& options, int ranks) {
  if (options.virtual_shards < 0 || (options.virtual_shards > 0 && options.virtual_shards < ranks))
    throw InvalidInput(
        fmt::format("virtual_shards is {}, and there are {} ranks", options.virtual_shards, ranks),
        {.advice = "Give at least one for each rank, or 0: one a rank, without the promise of the "
                   "same bits at another number."});
  if (options.threads < 1)
    throw InvalidInput(fmt::format("threads must be at least 1, got {}", options.threads));
  return options;
}

// LibTorch's threads for operators, put back at the end; not where other ranks of the process, which
// share a part of that setting, may still need it.
class ThreadsScope {
 public:
  ThreadsScope(int threads, bool shared_process)
      : before_(at::get_num_threads()), puts_back_(!shared_process && before_ != threads) {
    if (before_ != threads) at::set_num_threads(threads);
  }
  ~ThreadsScope() {
    if (puts_back_) at::set_num_threads(before_);
  }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int before_;
  bool puts_back_;
};

}  // namespace

struct ModuleSync::State {
  State(collective::Group& given, torch::nn::Module& wrapped, DistributedDataParallelOptions asked)
      : group(given),
        module(wrapped),
        options(checked(asked, given.size())),
        shards(options.virtual_shards > 0 ? options.virtual_shards : given.size()),
        parameters(listed(wrapped.named_parameters())) {
    broadcast_parameters(group, module);
    sharing = find_sharing(group, parameters);
    GradientSyncOptions sync;
    sync.bucket_bytes = options.bucket_bytes;
    sync.first_bucket_bytes = std::min(sync.first_bucket_bytes, sync.bucket_bytes);
    sync.shards = shards;
    sync.average = true;
    sync.allow_unused = options.allow_unused;
    sync.compression = options.compression;
    sync.accumulates = options.virtual_shards == 0;
    gradients.emplace(group, parameters, sync);
    make_buffers();
    watch.emplace(
        parameters, [this] { begin_backward(); }, [this] { end_backward(); });
    if (options.virtual_shards > 0) watch->pause(true);
  }

  void make_buffers() {
    buffers.emplace(group, options.sync_buffers ? listed(module.named_buffers()) : NamedTensors{},
                    shards);
  }

  Deadline deadline() const { return Deadline::after(options.timeout); }

  // --- backward() of the program ---

  void begin_backward() {
    if (sharing.gpu)
      throw InvalidInput(
          "several ranks of this process share a GPU: their gradients cannot be averaged inside "
          "backward()",
          {.advice =
               "Use net.backward(batch, loss), a DistributedOptimizer, or a process a rank."});
    expect_usable();
    gradients->begin_shard(gradients->first_shard());
  }

  void end_backward() {
    broken = true;  // unless all goes well
    named_call(kBackwardCall, [this] {
      gradients->end_shard();
      gradients->finish(deadline());
      buffers->begin_shard();
      buffers->end_shard(1.0 / shards);
      buffers->finish(deadline());
    });
    broken = false;
  }

  // An error ended the backward that is under way: nothing has happened, or the others know more of
  // this step than this rank.
  void give_up_backward() {
    if (gradients->discard_shard())
      watch->forget();
    else
      broken = true;
  }

  void expect_usable() const {
    if (broken)
      throw Error(
          "a backward() before this one ended with an error while gradients were being averaged: "
          "the ranks no longer agree",
          {.during = kBackwardCall, .advice = "End the program, or go on from a checkpoint."});
  }

  // --- backward(batch, loss) ---

  void check_weights(std::span<const double> weights, double total) const {
    if (static_cast<int>(weights.size()) != gradients->shard_count())
      throw InvalidInput(
          fmt::format("backward(batch, loss) got {} shards, and rank {} of {} has {} of the {}",
                      weights.size(), group.rank(), group.size(), gradients->shard_count(), shards),
          {.advice = "Give the DataLoader the same group and virtual_shards."});
    const double own = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double weight : weights)
      if (!(weight >= 0))
        throw InvalidInput(fmt::format("a shard's weight is {}", weight),
                           {.advice = "Give the number of its samples or tokens."});
    if (!(total > 0) || own > total * (1 + 1e-9))
      throw InvalidInput(
          fmt::format("a batch's total weight is {}, this rank's shards have {}", total, own),
          {.advice = "Give the sum over the shards of all ranks."});
  }

  double run_step(std::span<const double> weights, double total, const LossOf& loss_of) {
    check_weights(weights, total);
    expect_usable();
    std::optional<ThreadsScope> threads;
    if (options.virtual_shards > 0) threads.emplace(options.threads, sharing.process);
    std::vector<torch::Tensor> losses(weights.size());
    const bool was_paused = watch->pause(true);
    in_step = true;
    try {
      for (std::size_t i = 0; i < weights.size(); ++i)
        losses[i] = run_shard(i, weights[i] / total * shards, loss_of);
      broken = true;  // unless all goes well
      named_call("DistributedDataParallel::backward()", [this] {
        gradients->finish(deadline());
        buffers->finish(deadline());
      });
    } catch (...) {
      in_step = false;
      watch->pause(was_paused);
      throw;
    }
    broken = in_step = false;
    watch->pause(was_paused);
    ++steps;
    return mean_of(losses, weights, total);
  }

  torch::Tensor run_shard(std::size_t i, double scale, const LossOf& loss_of) {
    const int shard = gradients->first_shard() + static_cast<int>(i);
    std::optional<RandomScope> random;
    if (options.virtual_shards > 0 && !parameters.empty())
      random.emplace(shard_seed(options.seed, 0, steps, shard), parameters[0].second.device(),
                     sharing.process);
    torch::Tensor loss;
    gradients->begin_shard(shard);
    try {
      buffers->begin_shard();
      if (scale > 0) {
        loss = loss_of(i);
        if (!loss.defined() || loss.numel() != 1)
          throw InvalidInput("the loss of a shard is no single number",
                             {.advice = "Return a tensor of one element: the shard's mean."});
        (scale == 1 ? loss : loss * scale).backward();
      }
    } catch (...) {
      // What was taken of this shard, or of one before, is in the sum.
      if (i == 0 && gradients->discard_shard())
        make_buffers();
      else
        broken = true;
      throw;
    }
    gradients->end_shard();
    buffers->end_shard(scale / shards);
    return loss.defined() ? loss.detach() : loss;
  }

  // Each shard's loss has a place of its own, so the sum over ranks changes none.
  double mean_of(const std::vector<torch::Tensor>& losses, std::span<const double> weights,
                 double total) {
    std::vector<double> values(static_cast<std::size_t>(shards));
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (losses[i].defined())
        values[static_cast<std::size_t>(gradients->first_shard()) + i] =
            losses[i].item<double>() * weights[i];
    group.all_reduce(std::span(values), {.deadline = deadline()});
    return std::accumulate(values.begin(), values.end(), 0.0) / total;
  }

  collective::Group& group;
  torch::nn::Module& module;
  DistributedDataParallelOptions options;
  int shards;
  NamedTensors parameters;
  ProcessSharing sharing;
  std::optional<GradientSync> gradients;
  std::optional<BufferSync> buffers;
  std::optional<BackwardWatch> watch;
  bool in_step = false;
  bool broken = false;
  std::int64_t steps = 0;
};

ModuleSync::ModuleSync(collective::Group& group, torch::nn::Module& module,
                       DistributedDataParallelOptions options)
    : state_(std::make_unique<State>(group, module, options)) {}
ModuleSync::~ModuleSync() = default;

int ModuleSync::first_shard() const { return state_->gradients->first_shard(); }
int ModuleSync::shard_count() const { return state_->gradients->shard_count(); }
std::int64_t ModuleSync::steps() const { return state_->steps; }
void ModuleSync::set_steps(std::int64_t steps) { state_->steps = steps; }

void ModuleSync::before_forward() {
  State& state = *state_;
  if (!at::GradMode::is_enabled() || state.in_step) return;
  if (state.watch->is_under_way()) state.give_up_backward();
  state.expect_usable();
  if (state.options.virtual_shards > 0 && state.module.is_training())
    throw InvalidInput(
        "a forward in training outside backward(batch, loss), and virtual_shards is set",
        {.advice = "Compute the loss inside net.backward(batch, loss); evaluate after net->eval() "
                   "or under torch::NoGradGuard."});
}

bool ModuleSync::set_no_sync(bool on) {
  if (state_->options.virtual_shards > 0)
    throw InvalidInput("no_sync() with virtual_shards: a step adds up its shards already",
                       {.advice = "Use a larger batch, or more virtual shards."});
  return state_->watch->pause(on);
}

double ModuleSync::backward(std::span<const double> weights, double total, const LossOf& loss_of) {
  return state_->run_step(weights, total, loss_of);
}

}  // namespace cohort::parallel
