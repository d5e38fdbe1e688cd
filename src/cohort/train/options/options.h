#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/sharding/shard.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/model/metric.h"
#include "cohort/train/model/precision.h"
#include "cohort/train/model/training_step.h"
#include "cohort/train/model/weight_average.h"

namespace cohort::train {

class Callback;  // callbacks/callback.h

// Whether a step on a GPU is recorded once as a CUDA graph, which starts all of its kernels at once.
// automatic: where that can be done, with one line that says so, or why not; on: an Error where it
// cannot.
enum class CudaGraph { automatic, off, on };
CudaGraph parse_cuda_graph(const std::string& text);  // auto, off, on; throws InvalidInput

// What belongs to a training whatever data it sees. Options that change the arithmetic (batch size,
// shards, seed, precision) must be the same on all workers; fit() refuses where they are not.
struct TrainerOptions {
  std::int64_t batch_size = 64;  // samples a step, over all workers
  // Parts of a batch whose gradients are computed one by one and added in one order. The weights
  // depend on their number, not on that of the workers. 0: as many as there are replicas.
  int virtual_shards = 0;
  std::uint64_t seed = 1;  // of shuffling, dropout and augmentation
  // False gives up the same bits for the last percent: one shard a replica, random numbers from
  // LibTorch's own generators, batch-norm statistics of replica 0.
  bool deterministic = true;
  int accumulate = 1;              // micro-batches a shard is worked through in, to save memory
  double clip_norm = 0;            // greatest L2 norm of the averaged gradient; 0: any
  bool log_gradient_norm = false;  // before clipping, as "grad_norm" in a step's logs
  Precision precision = Precision::f32;
  parallel::Compression compression = parallel::Compression::none;
  parallel::BucketReducer reducer = {};  // replaces the built-in sum of gradients
  std::size_t bucket_bytes = 8 << 20;    // gradients that travel together
  bool allow_unused = false;             // parameters that a step does not reach
  // What workers divide among themselves, to save memory: the same bits as without. A program
  // that understands --shard gives context.flags().shard (docs/large-models.md).
  parallel::Shard shard = parallel::Shard::none;
  // On a GPU. LibTorch's flag for the process: f32 products with a shorter mantissa, on tensor
  // cores.
  bool tf32 = false;
  // Weights of convolutions, and so images, with the channels last: what tensor cores like best.
  bool channels_last = false;
  CudaGraph cuda_graph = CudaGraph::off;
  std::vector<Metric> metrics = {};  // beside the loss
  EmaOptions ema = {};               // a moving average of the weights
  // What validation and evaluate() measure; unset: the training step.
  TrainingStep evaluation_step = {};
  std::chrono::milliseconds step_timeout = std::chrono::minutes(5);  // for any one exchange
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t steps_per_epoch = 0;  // 0: until every sample was seen once
  std::int64_t max_steps = 0;        // of the whole training; 0: no limit
  bool shuffle = true;
  SourcePtr validation = {};
  std::int64_t validation_batch_size = 0;  // 0: batch_size
  // Validates after every so many steps besides; the step's logs have the result. 0: at the end of
  // an epoch alone.
  std::int64_t validate_every = 0;
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  bool progress = true;       // a living line and a summary, on the chief's screen
  bool fast_dev_run = false;  // one step, one batch of validation, nothing written: does it work?
  // Steps whose losses and metrics stay on the device before they are read together; the same values
  // and bits. 0: 10 on a GPU, 1 on the CPU. Callbacks that look at each step: Callback::reads_every.
  std::int64_t read_every = 0;
  int prefetch = 2;        // batches read ahead
  int loader_threads = 1;  // that read ahead, a replica; 0: the replica itself, between steps
  // On a GPU: stored images are kept there as a whole, so that a batch is made of them without the
  // host, where they lie in memory in no more bytes than this. 0: never.
  std::int64_t device_cache_bytes = std::int64_t{1} << 30;
  std::string resume = {};  // a checkpoint, or a folder of them: the newest good one, if any
};

// What happened. `history` has the logs of every epoch that this fit() finished.
struct FitResult {
  std::vector<Logs> history;
  std::int64_t step = 0;  // steps of the whole training
  double seconds = 0;
  double samples_per_second = 0;
  double communication_share = 0;
  double data_share = 0;  // of the time in which the first replica waited for batches
  std::string stopped;    // why it ended early, or empty
  std::string weights;    // SHA-256 of all parameters and buffers
};

}  // namespace cohort::train
