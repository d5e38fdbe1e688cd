#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/rules/update_rule.h"
#include "cohort/ps/table/sparse_table.h"

// How a module gets at embedding tables that live on the parameter servers. The one who trains a
// model (train/server_exchange.h) looks for TableModules among its modules before training begins.
namespace cohort::parallel {

// By table name: pieces of ps::SparseTable::write_snapshot, of all servers. Every table of a model is
// there, also one without rows.
using TableImages = std::map<std::string, std::vector<std::string>>;

// InvalidInput, by name, unless `images` has exactly these tables.
void expect_tables(const TableImages& images, const std::vector<std::string>& names);

// The rows of one table, for the step under way (between steps: for the next).
// Threads: those that run forward. Failure: what ps::Client throws.
class TableRows {
 public:
  virtual ~TableRows() = default;
  // `values` gets dimension floats a key.
  virtual void pull(std::span<const std::uint64_t> keys, float* values) = 0;
};

// To be implemented by a torch::nn::Module besides. Called on the replica's thread.
class TableModule {
 public:
  virtual ~TableModule() = default;

  // Its name and `group` are filled in: the module's name in the model, its rule's place.
  virtual ps::TableSpec table() const = 0;
  virtual ps::UpdateRule rule() const = 0;  // `lr` counts for the whole training

  // Training begins: `rows` may be used until the training's Exchange goes.
  virtual void connect(TableRows& rows) = 0;
  // All backwards of a step's own shards are done: their gradients, each key once, which the module
  // forgets. Empty where no row was used. Weighted like the loss, so nothing is to be scaled.
  virtual ps::RowGradients take_gradients() = 0;
};

}  // namespace cohort::parallel
