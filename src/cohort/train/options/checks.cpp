#include "cohort/train/options/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/train/checkpoint/safetensors.h"
#include "cohort/train/model/optimizer_parameters.h"

namespace cohort::train {
namespace {

constexpr std::int64_t kComparedSamples = 8;
constexpr int kMostLoaderThreads = 256;

void check_metrics(const std::vector<Metric>& metrics, const std::vector<Phase>& phases) {
  std::set<std::string> taken = {"loss", "lr", "grad_norm"};
  for (const Phase& phase : phases)
    if (phases.size() > 1) taken.insert({"loss_" + phase.name, "lr_" + phase.name});
  std::set<std::string> names;
  for (const Metric& metric : metrics) {
    expect(!metric.name.empty(), "a metric has no name", "Name it.");
    expect(metric.sum != nullptr || metric.stateful != nullptr,
           fmt::format("metric '{}' has no function", metric.name), "Set its `sum`.");
    for (const std::string& name : metric.log_names()) {
      expect(!taken.contains(name),
             fmt::format("metric '{}' has a name that the Trainer uses itself", name),
             fmt::format("Choose a name other than {}.", join({taken.begin(), taken.end()}, ", ")));
      expect(names.insert(name).second, fmt::format("two metrics are called '{}'", name),
             "Give each its own name.");
    }
  }
}

void check_shard(const TrainerOptions& options, const parallel::Strategy& strategy) {
  const std::string asked = "shard is " + parallel::to_string(options.shard);
  expect(strategy.name() != "parameter_server",
         asked + ", but parameter servers keep the optimizer's state already",
         "Leave --shard out, or use --distribution_strategy multi_worker_mirrored.");
  expect(!strategy.is_elastic(),
         asked + ", but in an elastic job a worker's part is lost with the worker",
         "Leave --shard out, or give a fixed number of workers and resume from checkpoints.");
  const bool whole_sums =
      options.compression != parallel::Compression::none || options.reducer != nullptr;
  expect(options.shard == parallel::Shard::optimizer || !whole_sums,
         asked + ", but a compression or a reducer of one's own makes whole sums of gradients",
         "Give --shard optimizer, or leave the compression and the reducer out.");
  expect(options.shard != parallel::Shard::parameters || options.ema.decay == 0,
         asked + ", but ema puts averaged weights into the model, which has its own by turns",
         "Give --shard gradients, or leave ema out.");
}

std::uint32_t checksum(const torch::Tensor& tensor, std::uint32_t sum) {
  const std::string head =
      fmt::format("{} {}", c10::toString(tensor.scalar_type()), shape_text(tensor.sizes().vec()));
  const torch::Tensor here = on_cpu(tensor.detach());
  return crc32c(here.data_ptr(), here.nbytes(), crc32c(head.data(), head.size(), sum));
}

std::uint32_t checksum_of_some(const SampleSource& data, std::uint64_t seed) {
  std::vector<std::int64_t> indices;
  const std::int64_t count = std::min(kComparedSamples, data.size());
  for (std::int64_t i = 0; i < count; ++i)
    indices.push_back(count == 1 || data.is_sequential() ? i : i * (data.size() - 1) / (count - 1));
  std::uint32_t sum = 0;
  for (const torch::Tensor& tensor : data.load(indices, {.seed = seed, .epoch = 0}).tensors())
    sum = checksum(tensor, sum);
  return sum;
}

}  // namespace

void expect(bool good, const std::string& what, const std::string& advice) {
  if (!good) throw InvalidInput(what, {.advice = advice});
}

void check(const TrainerOptions& options, const parallel::Strategy& strategy) {
  expect(options.batch_size >= 1,
         fmt::format("batch_size must be at least 1, got {}", options.batch_size),
         "Give the samples of a step, over all workers.");
  expect(options.accumulate >= 1,
         fmt::format("accumulate must be at least 1, got {}", options.accumulate),
         "Give the micro-batches of a shard.");
  expect(options.clip_norm >= 0,
         fmt::format("clip_norm must be 0 (none) or positive, got {}", options.clip_norm),
         "Give the greatest norm of the averaged gradient.");
  expect(options.virtual_shards == 0 || options.virtual_shards >= strategy.replicas(),
         fmt::format("virtual_shards must be 0 or at least the {} replicas, got {}",
                     strategy.replicas(), options.virtual_shards),
         "Give at least one a replica, or 0.");
  int shards = std::max(options.virtual_shards, strategy.shards());
  expect(options.batch_size >= shards,
         fmt::format("batch_size must be at least the {} shards of a batch, got {}", shards,
                     options.batch_size),
         "Give a larger batch_size (it is that of all workers together), or fewer shards.");
  if (options.shard != parallel::Shard::none) check_shard(options, strategy);
}

void check(const FitOptions& options, const SampleSource& data, std::int64_t batch_size) {
  expect(options.epochs >= 0, fmt::format("epochs must be 0 or more, got {}", options.epochs),
         "Give the epochs of the whole training.");
  std::int64_t most = (data.size() + batch_size - 1) / batch_size;
  expect(options.steps_per_epoch >= 0 && options.steps_per_epoch <= most,
         fmt::format("steps_per_epoch must be 0 to {}, got {}: {} samples in batches of {} are {} "
                     "steps",
                     most, options.steps_per_epoch, data.size(), batch_size, most),
         "Give no more than that, or 0 for all.");
  expect(options.max_steps >= 0,
         fmt::format("max_steps must be 0 (no limit) or more, got {}", options.max_steps),
         "Give the steps of the whole training.");
  expect(options.read_every >= 0,
         fmt::format("read_every must be 0 (automatic) or more steps, got {}", options.read_every),
         "Give the steps after which losses and metrics are read from the device.");
  expect(options.prefetch >= 1,
         fmt::format("prefetch must be at least 1, got {}", options.prefetch),
         "Give the number of batches to read ahead.");
  expect(options.loader_threads >= 0 && options.loader_threads <= kMostLoaderThreads,
         fmt::format("loader_threads must be 0 to {}, got {}", kMostLoaderThreads,
                     options.loader_threads),
         "Give the threads of a replica that read batches ahead; 0: it reads them itself.");
  expect(options.device_cache_bytes >= 0,
         fmt::format("device_cache_bytes must be 0 (never) or more, got {}",
                     options.device_cache_bytes),
         "Give the most bytes of stored images that a GPU keeps.");
  expect(options.validate_every >= 0,
         fmt::format("validate_every must be 0 (at the end of an epoch) or more steps, got {}",
                     options.validate_every),
         "Give a number of steps.");
  expect(
      options.validate_every == 0 || options.validation,
      fmt::format("validate_every is {}, but there is no validation data", options.validate_every),
      "Set FitOptions::validation too.");
  if (options.validation) expect_samples(options.validation.get(), "the validation data set");
}

void expect_samples(const SampleSource* data, const char* what) {
  expect(data != nullptr, fmt::format("{} is null", what), "Give a data set.");
  expect(data->size() > 0, fmt::format("{} has no samples", what),
         "Look at how it is made; leave it out where there is none.");
}

void check_optimizers(const std::vector<Phase>& phases, const torch::nn::Module& module) {
  std::unordered_set<const void*> given, own;
  for (const auto& item : module.named_parameters()) own.insert(item.value().unsafeGetTensorImpl());
  for (const Phase& phase : phases) {
    std::size_t all = 0, foreign = 0, repeated = 0;
    std::unordered_set<const void*> seen;
    for (const torch::Tensor& parameter : parameters_of(*phase.optimizer)) {
      ++all;
      if (!own.contains(parameter.unsafeGetTensorImpl())) ++foreign;
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) ++repeated;
      given.insert(parameter.unsafeGetTensorImpl());
    }
    const std::string of = phase.name.empty() ? "" : fmt::format(" of phase '{}'", phase.name);
    expect(all > 0, fmt::format("the optimizer{} has no parameters", of),
           "Make it with those that it is to update, model->parameters().");
    expect(
        foreign == 0,
        fmt::format("{} of the optimizer's {} parameters{} are not of the model {}, which has {}",
                    foreign, all, of, module.name(), own.size()),
        "Make the optimizer over the parameters of the module that the Trainer gets "
        "(net->parameters()).");
    expect(repeated == 0,
           fmt::format("the optimizer{} has {} of its {} parameters twice, and would update them "
                       "twice a step",
                       of, repeated, all),
           "Give it each tensor once: LibTorch's parameters() lists one that has two names (tied "
           "weights) once for each.");
  }
  std::vector<std::string> untrained;
  for (const auto& item : module.named_parameters())
    if (item.value().requires_grad() && !given.contains(item.value().unsafeGetTensorImpl()))
      untrained.push_back(item.key());
  if (!untrained.empty())
    log::warning(
        "no optimizer has a parameter group for {}: they stay as they are. Set "
        "requires_grad to false where that is meant",
        join(untrained, ", "));
}

void check_phases(const std::vector<Phase>& phases, const torch::nn::Module& module,
                  const std::vector<Metric>& metrics) {
  expect(!phases.empty(), "there are no phases", "Give at least one optimizer and its step.");
  std::set<std::string> names;
  for (const Phase& phase : phases) {
    const std::string of = phase.name.empty() ? "" : fmt::format(" in phase '{}'", phase.name);
    expect(phase.optimizer != nullptr, "there is no optimizer" + of,
           "Give one over the model's parameters.");
    expect(static_cast<bool>(phase.step), "there is no training step" + of,
           "Give [](Net& net, const MyBatch& batch) -> cohort::Loss, or a loss function.");
    if (phases.size() == 1) continue;
    expect(std::all_of(phase.name.begin(), phase.name.end(),
                       [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
               !phase.name.empty(),
           fmt::format("a phase is called '{}'", phase.name),
           "Name it in letters, digits and _: the name is part of \"loss_<name>\".");
    expect(names.insert(phase.name).second, fmt::format("two phases are called '{}'", phase.name),
           "Give each its own name.");
  }
  check_optimizers(phases, module);
  check_metrics(metrics, phases);
}

void check_loss(const Loss& loss, bool training) {
  expect(loss.mean.defined(), "the training step gave no loss", "Set Loss::mean.");
  expect(loss.mean.numel() == 1,
         fmt::format("the loss is a tensor of shape {}, not one number",
                     shape_text(loss.mean.sizes().vec())),
         "Return the mean over the batch: loss.mean().");
  expect(!training || loss.mean.requires_grad(),
         "the loss does not depend on any parameter that is trained",
         "Compute it from the model's output, with gradients (no detach(), no NoGradGuard), from "
         "parameters of the phase's optimizer that require gradients.");
}

void check_prediction(const torch::Tensor& output, std::int64_t samples) {
  if (output.dim() > 0 && output.size(0) == samples) return;
  throw InvalidInput(fmt::format("predict() gave a tensor of shape {} for {} samples",
                                 shape_text(output.sizes().vec()), samples),
                     {.advice = "Return one row a sample."});
}

nlohmann::json identity_of(const SampleSource& data, std::uint64_t seed, bool contents) {
  nlohmann::json identity{{"samples", data.size()}, {"checksum", nullptr}};
  if (!contents) return identity;
  const torch::NoGradGuard no_grad;
  const std::uint32_t sum = checksum_of_some(data, seed);
  if (sum == checksum_of_some(data, seed))
    identity["checksum"] = fmt::format("{:08x}", sum);
  else
    log::warning(
        "the data set gives other values each time a sample is read: the training cannot "
        "be repeated. Draw random numbers from the DrawKey that get() is given");
  return identity;
}

}  // namespace cohort::train
