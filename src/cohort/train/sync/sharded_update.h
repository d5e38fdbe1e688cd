#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/parallel/sharding/dropped_parameters.h"
#include "cohort/parallel/sharding/gradient_shares.h"
#include "cohort/parallel/sharding/mesh.h"
#include "cohort/parallel/sharding/partition.h"
#include "cohort/parallel/sharding/peer_reads.h"
#include "cohort/parallel/sharding/shard.h"
#include "cohort/parallel/tensors/named_tensors.h"
#include "cohort/train/checkpoint/parameter_state.h"
#include "cohort/train/model/precision.h"

namespace cohort::train {

// The update of a model whose optimizer's state the ranks divide among themselves (ZeRO-1), and
// with Shard::gradients the sums of the gradients too (ZeRO-2: shares(), for GradientSync), with
// Shard::parameters also the parameters (ZeRO-3: DroppedParameters): each
// rank updates the slices of the parameters that are its own (Partition), with an optimizer of the
// same class and options over those slices, and gets the others' slices from their owners. The bits
// are those of the update of whole parameters, for these classes work element by element.
//
// The given optimizer is the program's: its options (learning rate, weight decay by group) count in
// every step. It has no state while training goes on; what it holds when training begins, a
// checkpoint's or that of an earlier training, is rank 0's and is divided by broadcast_from_first().
//
//   broadcast_from_first                     collective
//   for each step, gradients in place: begin_step, unscale, clip, step    collective
//   gather_state, a checkpoint, release_state    rank 0 alone, while the others go on
//
// Threads: confined to the replica's thread. Ownership: the group, the module's parameters and the
// optimizer must outlive it. Failure: InvalidInput that names an optimizer or a parameter that
// cannot be divided; what the group throws.
class ShardedUpdate {
 public:
  // Collective. `parameters`: the module's that the optimizer updates, by name, once each.
  // `mesh`: of the group's ranks, all of them along `shard`.
  ShardedUpdate(collective::Group& group, const parallel::Mesh& mesh,
                const torch::nn::Module& module, const parallel::NamedTensors& parameters,
                torch::optim::Optimizer& optimizer, parallel::Shard shard,
                std::chrono::milliseconds timeout);
  ~ShardedUpdate();

  // Null: gradients are not divided.
  std::shared_ptr<parallel::GradientShares> shares() const { return shares_; }

  void begin_forward();      // of a step: parameters come and go from here on
  void gather_parameters();  // until then they are whole; not collective
  void begin_step();
  // What has the gradients of the step: parameters, and slices of those whose gradient is divided.
  const parallel::NamedTensors& updated() const { return updated_; }
  bool unscale(LossScale& scale);
  // As parallel::clip_gradients, to the same bits.
  double clip(double max_norm);
  void step();
  // Rank 0's options, and its optimizer's state where it holds any, become the job's.
  void broadcast_from_first(const torch::nn::Module& module);
  // The optimizer holds the state of the whole job. Of rank 0.
  void gather_state();
  void release_state();

 private:
  // A parameter of the optimizer.
  struct Part {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor slice;  // this rank's, with the memory of the parameter; undefined: it has none
  };
  enum Kind : std::int64_t { kStateText, kStateTensor, kSlice };

  void add_updated();
  void add_parts(const parallel::NamedTensors& parameters);
  void take_options();
  void drop_parameters(const torch::nn::Module& module);
  bool is_dropped(std::size_t part) const;
  void gather_updated();
  void gather_whole(torch::ScalarType dtype);
  void divide(std::size_t part, const nlohmann::json& description,
              const std::optional<ParameterState>& whole);
  std::optional<ParameterState> whole_state(std::size_t part);
  nlohmann::json describe(std::size_t part) const;  // this rank's state of it; null: none
  parallel::PeerReads::Item answer(std::int64_t kind, std::int64_t item) const;
  int first_owner(std::size_t part) const;
  Deadline deadline() const { return Deadline::after(timeout_); }

  collective::Group& group_;
  torch::optim::Optimizer& optimizer_;
  std::chrono::milliseconds timeout_;
  std::vector<Part> parts_;
  std::optional<parallel::Partition> partition_;
  std::shared_ptr<parallel::GradientShares> shares_;
  // All parameters of the model, in its order: what a norm is added up over.
  parallel::NamedTensors parameters_, updated_;
  std::unique_ptr<torch::optim::Optimizer> own_;  // over this rank's slices
  bool gathered_ = false;
  std::vector<char> dropped_parts_;                     // by part: its slice has memory of its own
  std::optional<parallel::PeerReads> reads_;            // its threads read the others
  std::optional<parallel::DroppedParameters> dropped_;  // reads by the one before
};

}  // namespace cohort::train
