#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/parallel/cuda/recorded_work.h"
#include "cohort/train/data/any_batch.h"
#include "cohort/train/loop/measured_sums.h"
#include "cohort/train/options/options.h"

namespace cohort::train {

// The computations of a step's own shards on a GPU, as CUDA graphs: each is done as it is the first
// times, which lets LibTorch choose its algorithms and make what lasts, then recorded, and replayed
// from then on. A graph is good for batches of the same arrangement (AnyBatch::arrangement) and for the
// same numbers of the host (`constants`); others are computed as they are, and recorded too where they
// come again. Nothing is recorded of batches that hold values of the host, or of computations that
// draw random numbers on the host. What else a computation reads on the host stays as it was when it
// was recorded: it must depend on the batch, the model and LibTorch's generators alone.
//
// Where something cannot be recorded, that and everything later is computed as it is, and one line of
// the log says why; with CudaGraph::on it is an Error.
//
// Threads: confined to the replica's, whose current stream is not the default one.
class GraphedShards {
 public:
  // What of a shard's computation is one graph. `begin_again` puts back what a recording that failed
  // has begun; false: that cannot be done.
  struct Shard {
    std::size_t number = 0;         // among the replica's own
    std::vector<double> constants;  // that are part of the computation
    // `recorded`: what of it is the host's is left to before_replay and after_replay.
    std::function<Measured(const AnyBatch& batch, bool recorded)> compute;
    std::function<bool()> begin_again;
    std::function<void()> before_replay, after_replay;
  };

  // Whether all replicas say true. Collective.
  using Agree = std::function<bool(bool mine)>;

  // `speaks`: of the replicas, this one writes to the log. `agree`: where there are others, which
  // record a step when this one does; empty: there are none. Batches then have one shape for one
  // list of constants, else nothing is recorded, or run() throws InvalidInput.
  GraphedShards(torch::Device device, CudaGraph wanted, bool speaks, Agree agree = {})
      : device_(device), wanted_(wanted), speaks_(speaks), agree_(std::move(agree)) {}

  // What compute(batch) measures, by whichever way.
  Measured run(const Shard& shard, const AnyBatch& batch);
  // All graphs go: what they refer to is about to change. All replicas do so together.
  void reset() { graphs_.clear(); }
  // Why nothing is recorded, where that is so: from now on.
  void switch_off(const std::string& reason);
  bool is_on() const { return wanted_ != CudaGraph::off; }

 private:
  struct Graph {
    std::size_t shard = 0;
    std::vector<double> constants;
    std::vector<std::string> arrangement;  // of the batch
    bool varies = false;                   // batches had others, too
    bool draws_on_host = false;            // random numbers
    int times = 0;                         // computed so far
    AnyBatch batch;                        // that the graph reads
    Measured measured;                     // whose row the graph writes
    std::unique_ptr<parallel::RecordedWork> work;
  };
  Graph& graph_of(const Shard& shard, std::vector<std::string> arrangement);
  Measured compute_watched(const Shard& shard, const AnyBatch& batch, Graph& graph);
  // Why that cannot be; empty: it is recorded.
  std::string record(const Shard& shard, const AnyBatch& batch, Graph& graph);
  bool record_with_others(const Shard& shard, const AnyBatch& batch, Graph& graph);

  torch::Device device_;
  CudaGraph wanted_;
  bool speaks_;
  Agree agree_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

}  // namespace cohort::train
