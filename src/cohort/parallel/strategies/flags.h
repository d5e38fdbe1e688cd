#pragma once

#include <string>
#include <vector>

#include "cohort/parallel/sharding/shard.h"
#include "cohort/parallel/strategies/flag_help.h"
#include "cohort/parallel/strategies/server_flags.h"
#include "cohort/parallel/tensors/matrix_products.h"

// The flags that every Cohort program understands, whatever flags it has of its own.
// Pure functions and values.
namespace cohort {

struct StrategyFlags {
  // off|one_device|mirrored|multi_worker_mirrored|parameter_server; empty: what the launcher says,
  // else what the number of workers and replicas asks for. `off` is another name of one_device.
  std::string distribution_strategy;
  int num_gpus = 0;      // GPUs a worker, one replica each
  int num_replicas = 0;  // replicas a worker; 0: one a GPU, else one
  std::string device;    // cpu|cuda; empty: cuda when num_gpus > 0, else cpu
  // Intra-op threads a replica. 0: one inside Strategy::run(), and so in a Trainer; for other code
  // see init(). LibTorch cuts sums by the number of threads, so results have the same bits only
  // where this number is the same.
  int threads = 0;
  // auto|torch|onednn: the library that multiplies f32 matrices on the CPU. Results have the same
  // bits only where it is the same.
  parallel::MatrixProducts matmul = parallel::MatrixProducts::automatic;
  // auto|gpu|nccl|ipc|host|mpi: what moves data between the workers. mpi: the MPI which started them
  // (transport.h says where that is refused). Else Cohort's own engine, and between GPUs what
  // devices/device_transport.h says.
  std::string transport = "auto";
  // none|optimizer|gradients|parameters: what workers divide among themselves. For
  // TrainerOptions::shard.
  parallel::Shard shard = parallel::Shard::none;
  parallel::ServerFlags servers;  // of parameter_server

  int replicas_per_worker() const;
  bool wants_cuda() const { return num_gpus > 0 || device == "cuda"; }
};

namespace parallel {

// All of them, for a program's own --help.
std::vector<FlagHelp> strategy_flags_help();

// The same as lines of text, for example for CLI::App::footer().
std::string strategy_flags_text();

struct ParsedFlags {
  StrategyFlags flags;
  std::vector<std::string> rest;  // what is not ours, in its order
};

// Takes `--name value` and `--name=value` (a name alone where the flag needs no value), `-` for `_`
// inside names; the last of equal names wins; reads up to a lone `--`. Throws InvalidInput that
// names flag, value and what is allowed; also for flags that contradict each other.
ParsedFlags take_strategy_flags(const std::vector<std::string>& arguments);

// The strategies by the names of their flag, without "off".
std::vector<std::string> strategy_names();

}  // namespace parallel
}  // namespace cohort
