#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/devices/tree_sum.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

// One rank's part of keeping a model's buffers (batch-norm statistics) the same on all replicas:
// every shard of a step starts from the buffers as they were before it, and leaves weighted values
// for the sum over all shards. What is done with them is the owner's business: BufferSync adds them
// up with other ranks, parameter servers replace the old values by them.
//
// Threads: confined to the replica's thread. Ownership: keeps the buffers; `plan` must outlive it.
// Failure: InvalidInput that names a buffer of a type that cannot be summed, and calls out of turn.
class BufferPartials {
 public:
  // `keeps_before`: false where there is one shard in all, which may work on the buffers
  // themselves. `device`: of the values below.
  BufferPartials(const collective::ShardPlan& plan, const NamedTensors& buffers, bool keeps_before,
                 torch::Device device = torch::kCPU);

  bool empty() const { return floating_.empty() && integer_.empty() && boolean_.empty(); }
  void begin_shard();
  void end_shard(double weight);
  void discard_step();  // gives up what was begun since the last end_step()
  void end_step();  // after the last own shard; the values below count until the next begin_shard

  // Floating-point buffers one after the other, as f64 whatever their type, so that a value on
  // which all shards agree comes out as it was: one tensor for each node of the plan.
  const std::vector<torch::Tensor>& partials() const { return partials_; }
  // The largest of the own shards' integer buffers (i64); the first own shard's boolean ones. Where
  // the plan has no shards: what is below every integer, and any boolean.
  const torch::Tensor& largest() const { return largest_; }
  const torch::Tensor& first() const { return first_; }

  std::int64_t floating_elements() const { return elements_of(floating_); }
  std::int64_t integer_elements() const { return elements_of(integer_); }
  std::int64_t boolean_elements() const { return elements_of(boolean_); }
  // As they are now.
  torch::Tensor floating_values() const { return pack(floating_, torch::kDouble); }
  torch::Tensor integer_values() const { return pack(integer_, torch::kLong); }
  torch::Tensor boolean_values() const { return pack(boolean_, torch::kBool); }
  // What the buffers are from here on, packed like the above.
  void set_floating(const torch::Tensor& values) { unpack(values, floating_); }
  void set_integer(const torch::Tensor& values) { unpack(values, integer_); }
  void set_boolean(const torch::Tensor& values) { unpack(values, boolean_); }

 private:
  struct Tracked {
    torch::Tensor buffer;
    torch::Tensor before;  // its value before the step
  };
  static std::int64_t elements_of(const std::vector<Tracked>& tracked);
  torch::Tensor pack(const std::vector<Tracked>& tracked, torch::ScalarType type) const;
  static void unpack(const torch::Tensor& packed, std::vector<Tracked>& tracked);
  void add_floating(torch::Tensor values);

  const collective::ShardPlan& plan_;
  torch::Device device_;
  std::vector<Tracked> floating_, integer_, boolean_;
  std::size_t shards_done_ = 0;
  bool in_shard_ = false;
  std::vector<TreePart> stack_;
  std::vector<torch::Tensor> partials_;
  torch::Tensor largest_, first_;
};

}  // namespace cohort::parallel
