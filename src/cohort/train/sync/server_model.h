#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/parallel/gradients/buffer_partials.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/ps/client/client.h"
#include "cohort/ps/model/model_spec.h"

namespace cohort::train {

// A replica's model and optimizer beside their image on the parameter servers: which element of
// which block is whose, values and optimizer state both ways.
//
// Blocks 0..n-1 are the buckets of the GradientSync. Where the model has buffers, one more block of
// f64 holds them: floating-point, integer and boolean ones, one after the other; a push replaces
// them by the weighted mean over the shards.
//
// Threads: confined to the replica's thread, but for InitialState::read and StateSink. Ownership:
// everything given must outlive it.
// Failure: InvalidInput, by name, for a parameter that is neither f32 nor f64 and an optimizer that
// servers do not know.
class ServerModel {
 public:
  ServerModel(const parallel::GradientSync& gradients, parallel::BufferPartials& buffers,
              torch::optim::Optimizer& optimizer);

  // Blocks and groups.
  const ps::ModelSpec& spec() const { return spec_; }
  bool has_buffers() const { return buffer_elements_ > 0; }
  int buffer_block() const { return static_cast<int>(spec_.blocks.size()) - 1; }

  // Of all groups as they are now in the optimizer.
  std::vector<double> learning_rates() const;

  // Where values go to when they are read; then place_values() puts what cannot be written directly
  // (parameters on a device, buffers) where it belongs.
  std::span<const ps::BlockRun> runs() const { return runs_; }
  void place_values();

  // What a worker pushes of its buffers: an array for each node of its shards. `weight`: of its
  // samples. Valid until the next call.
  std::span<const std::byte* const> buffer_partials(double weight);
  // The same with the buffers as they are: for a worker without samples.
  std::span<const std::byte* const> unchanged_buffers();

  // Model and optimizer as they are, for the servers; what the servers have, for model and
  // optimizer (tables are the caller's business). Both must not outlive this object; finish_state()
  // ends what the sink took.
  ps::InitialState initial_state(std::int64_t first_step) const;
  ps::StateSink state_sink();
  void finish_state();

 private:
  struct Place {  // of a part
    int block = 0;
    torch::Tensor parameter;
    std::uint64_t offset = 0;
    int group = 0;
  };
  torch::Tensor view(std::byte* block, const Place& place) const;
  std::vector<std::byte> make_block(int block) const;
  std::size_t element_bytes(int block) const;
  void pack(int block, int slot, std::vector<std::byte>& to) const;
  torch::Tensor packed_buffers() const;
  void set_buffers(const torch::Tensor& values);
  void stage(std::size_t place);

  parallel::BufferPartials& buffers_;
  torch::optim::Optimizer& optimizer_;
  ps::ModelSpec spec_;
  std::vector<Place> places_;
  std::int64_t buffer_elements_ = 0;

  std::vector<ps::BlockRun> runs_;
  std::vector<std::pair<std::size_t, torch::Tensor>> staged_;  // place, CPU copy
  torch::Tensor buffer_values_;                                // f64
  std::vector<torch::Tensor> buffer_nodes_;
  std::vector<const std::byte*> buffer_pointers_;

  std::vector<std::vector<std::vector<std::byte>>> taken_;  // by block and slot + 1
  std::int64_t taken_updates_ = 0;
};

}  // namespace cohort::train
