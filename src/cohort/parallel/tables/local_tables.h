#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/parallel/tables/table_module.h"

namespace cohort::parallel {

// The embedding tables of a model in this process, for a training of one replica without servers.
// The bits are those of one worker with any number of servers in sync mode.
//
// Threads: confined to the replica's. Ownership: shares the modules; must outlive their use.
// Failure: Error for a gradient that is not finite.
class LocalTables {
 public:
  // Finds the TableModules of `model`, in the order of their names, and connects them. For none
  // nothing happens.
  explicit LocalTables(torch::nn::Module& model);
  ~LocalTables();

  // A step's backwards are done. Their gradients are divided by what the loss was multiplied with.
  void update(double loss_scale = 1);
  void drop_gradients();  // of a step that is left out

  struct Size {
    std::string table;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Size> sizes() const;
  bool empty() const { return tables_.empty(); }

  // What the tables hold, and tables that hold what `images` has instead of what they held, as
  // after `updates` updates. InvalidInput for an image that is not of these tables.
  TableImages images() const;
  void restore(const TableImages& images, std::uint64_t updates);

  // The name of the first table in `model`; empty: it has none.
  static std::string first_table(torch::nn::Module& model);

 private:
  struct Table;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace cohort::parallel
