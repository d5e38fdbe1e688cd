#include "train_flags.h"

#include <filesystem>

#include "cohort/base/log/log.h"
#include "parse_arguments.h"

namespace examples {

void TrainFlags::declare(CLI::App& app) {
  app.add_option("--data_dir", data_dir, "folder with the data set (scripts/get-data makes one)");
  app.add_option(
      "--model_dir", model_dir,
      "where checkpoints, TensorBoard files and logs go; default: the job's output folder");
  app.add_option("--batch_size", batch_size, "samples a step, over all workers")
      ->capture_default_str();
  app.add_option("--train_epochs", train_epochs, "passes over the data")->capture_default_str();
  app.add_option("--max_steps", max_steps, "stop after so many steps; 0: no limit")
      ->capture_default_str();
  app.add_option("--learning_rate", learning_rate, "of the optimizer")->capture_default_str();
  app.add_option("--seed", seed, "of weights, shuffling, dropout, augmentation")
      ->capture_default_str();
  app.add_option("--virtual_shards", virtual_shards,
                 "parts of a batch: give a number, and the weights do not depend on the number of "
                 "workers; 0: one a replica")
      ->capture_default_str();
  app.add_option("--deterministic", deterministic, "the same bits every time")
      ->capture_default_str();
  app.add_option("--accumulate", accumulate, "micro-batches a shard")->capture_default_str();
  app.add_option("--clip_norm", clip_norm, "greatest norm of the gradient; 0: any")
      ->capture_default_str();
  app.add_option("--prefetch", prefetch, "batches read ahead, a replica")->capture_default_str();
  app.add_option("--loader_threads", loader_threads, "that read batches ahead, a replica")
      ->capture_default_str();
  app.add_option("--precision", precision, "f32, bf16 or f16")->capture_default_str();
  app.add_option("--compression", compression, "of gradients on the wire: none, f16 or bf16")
      ->capture_default_str();
  app.add_flag(
      "--fast", fast,
      "on a GPU: what is faster and keeps the accuracy: --precision bf16 --channels_last "
      "--tf32 --deterministic false --cuda_graph auto --loader_threads 2 --prefetch 4; each may be "
      "given too");
  app.add_option("--cuda_graph", cuda_graph,
                 "steps on a GPU started as a whole: auto (where it can be done), off or on")
      ->capture_default_str();
  app.add_option("--tf32", tf32, "on a GPU: f32 products with a shorter mantissa")
      ->expected(0, 1)
      ->default_str("false");
  app.add_option("--channels_last", channels_last, "on a GPU: images with the channels last")
      ->expected(0, 1)
      ->default_str("false");
  app.add_option("--read_every", read_every,
                 "steps after which losses are read from a GPU; 0: 10 there")
      ->capture_default_str();
  app.add_option("--device_cache", device_cache,
                 "MiB of stored images that a GPU keeps as a whole, at most; 0: none")
      ->capture_default_str();
  app.add_flag("--resume", resume, "go on from the newest checkpoint of --model_dir");
  app.add_flag("--trace", trace, "write a Perfetto trace of steps, buckets and collectives");
  app.add_flag("--fast_dev_run", fast_dev_run,
               "one step and one batch of validation: does it work?");
  app.footer(cohort::parallel::strategy_flags_text());
}

bool TrainFlags::parse(CLI::App& app, const cohort::Context& context) {
  if (!parse_arguments(app, context.arguments())) return false;
  if (fast) apply_fast(app, context);
  return true;
}

void TrainFlags::apply_fast(const CLI::App& app, const cohort::Context& context) {
  if (!context.flags().wants_cuda()) {
    if (context.is_chief())
      cohort::log::info("--fast has no effect on a CPU; --device cuda trains on a GPU");
    return;
  }
  const auto set = [&app](const char* flag, auto& value, auto fast_value) {
    if (app.get_option(flag)->count() == 0) value = fast_value;
  };
  set("--precision", precision, "bf16");
  set("--channels_last", channels_last, true);
  set("--tf32", tf32, true);
  set("--deterministic", deterministic, false);
  set("--cuda_graph", cuda_graph, "auto");
  set("--loader_threads", loader_threads, 2);
  set("--prefetch", prefetch, 4);
}

cohort::TrainerOptions TrainFlags::trainer_options(const cohort::Context& context) const {
  return {.batch_size = batch_size,
          .virtual_shards = virtual_shards,
          .seed = seed,
          .deterministic = deterministic,
          .accumulate = accumulate,
          .clip_norm = clip_norm,
          .precision = cohort::parse_precision(precision),
          .compression = cohort::parse_compression(compression),
          .shard = context.flags().shard,
          .tf32 = tf32,
          .channels_last = channels_last,
          .cuda_graph = cohort::parse_cuda_graph(cuda_graph),
          .metrics = {cohort::accuracy()}};
}

cohort::FitOptions TrainFlags::fit_options(const cohort::Context& context) const {
  cohort::FitOptions options{.epochs = train_epochs,
                             .max_steps = max_steps,
                             .fast_dev_run = fast_dev_run,
                             .read_every = read_every,
                             .prefetch = prefetch,
                             .loader_threads = loader_threads,
                             .device_cache_bytes = device_cache << 20};
  std::filesystem::path folder = model_dir.empty() ? context.output() : model_dir;
  if (folder.empty()) {
    if (resume || trace)
      throw cohort::InvalidInput("--resume and --trace need a folder",
                                 {.advice = "Give --model_dir."});
    return options;
  }
  options.callbacks = {
      std::make_shared<cohort::ModelCheckpoint>(folder / "checkpoints"),
      std::make_shared<cohort::TensorBoard>(folder / "tensorboard"),
      std::make_shared<cohort::CsvLog>(folder / "metrics.csv"),
      std::make_shared<cohort::WorkerLog>(folder / "logs"),
  };
  if (trace) options.callbacks.push_back(std::make_shared<cohort::Trace>(folder / "trace"));
  if (resume) options.resume = folder / "checkpoints";
  return options;
}

}  // namespace examples
