#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "cohort/parallel/tables/table_module.h"

namespace cohort::parallel {

struct ShardedEmbeddingOptions {
  int dimension = 16;
  std::uint64_t rows = 0;       // keys are 0..rows-1; 0: any 64-bit key, rows appear as needed
  int admit_after = 1;          // the step with a key in which its row appears; before: zeros
  std::uint64_t keep_for = 0;   // steps after its last use that a row stays; 0: for ever
  double initial_scale = 0.01;  // rows begin uniform in [-scale, scale], from (seed, key)
  std::uint64_t seed = 1;
  // How gradients change rows, with a learning rate for the whole training. The table's own: a
  // model's optimizer sees parameters only.
  ps::UpdateRule rule = {.kind = ps::UpdateRule::Kind::adagrad, .lr = 0.05};
};

// An embedding table whose rows live on parameter servers, spread by key, or in this process where
// a training has one replica and no servers. As torch::nn::Embedding in a model, but it has no
// parameters: a step pulls the rows that its keys need, and pushes their gradients, duplicates
// summed, when it ends.
//
//   users = register_module("users", ShardedEmbedding(ShardedEmbeddingOptions{.dimension = 32}));
//   torch::Tensor rows = users(keys);  // int64 of any shape; rows has one dimension more
//
// The table has the module's name in the model. A Trainer connects it. Rows are f32 and come on the
// device of the keys.
// Threads: thread-compatible; backward may run on LibTorch's own threads.
// Failure: InvalidInput for options that cannot be, for keys of another type or outside the table,
// and in forward() before it is connected; what TableRows throws.
class ShardedEmbeddingImpl : public torch::nn::Module, public TableModule {
 public:
  explicit ShardedEmbeddingImpl(ShardedEmbeddingOptions options);

  torch::Tensor forward(const torch::Tensor& keys);

  const ShardedEmbeddingOptions& options() const;

  ps::TableSpec table() const override;
  ps::UpdateRule rule() const override { return options().rule; }
  void connect(TableRows& rows) override;
  // Rows in ascending order of their keys, each the sum in the order of the occurrences.
  ps::RowGradients take_gradients() override;

  void pretty_print(std::ostream& stream) const override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the graphs of forward()
};
TORCH_MODULE(ShardedEmbedding);

}  // namespace cohort::parallel
