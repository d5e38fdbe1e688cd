#pragma once

#include <cohort/cohort.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// The flags that the training programs share, and what follows from them.
namespace examples {

struct TrainFlags {
  std::string data_dir;
  std::string model_dir;  // empty: the job's output folder, else nothing is written
  std::int64_t batch_size = 64;
  std::int64_t train_epochs = 1;
  std::int64_t max_steps = 0;
  double learning_rate = 0.01;
  std::uint64_t seed = 1;
  int virtual_shards = 0;
  bool deterministic = true;
  bool resume = false;
  bool fast_dev_run = false;
  bool trace = false;
  int accumulate = 1;
  double clip_norm = 0;
  int loader_threads = 1;
  int prefetch = 2;
  std::int64_t read_every = 0;
  std::int64_t device_cache = 1024;  // MiB
  bool fast = false;
  bool tf32 = false;
  bool channels_last = false;
  std::string cuda_graph = "off";
  std::string precision = "f32";
  std::string compression = "none";

  // Declares the flags; the values above are their defaults.
  void declare(CLI::App& app);
  // Reads the rest of the command line, and sets what --fast stands for. Returns false when --help
  // was asked for and answered.
  bool parse(CLI::App& app, const cohort::Context& context);

  cohort::TrainerOptions trainer_options(const cohort::Context& context) const;
  // Checkpoints, TensorBoard files, CSV and per-worker logs under the model folder.
  cohort::FitOptions fit_options(const cohort::Context& context) const;

 private:
  void apply_fast(const CLI::App& app, const cohort::Context& context);
};

}  // namespace examples
