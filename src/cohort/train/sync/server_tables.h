#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/parallel/tables/table_module.h"
#include "cohort/ps/client/client.h"

namespace cohort::train {

// The modules of a model whose embedding tables live on the parameter servers.
// Threads: confined to the replica's thread. Ownership: the model must outlive it, and it the
// modules' use of their rows.
class ServerTables {
 public:
  explicit ServerTables(torch::nn::Module& model);
  ~ServerTables();

  // A table's name; all names; an image without pieces for each; an image's pieces by table.
  const std::string& name(int table) const {
    return modules_[static_cast<std::size_t>(table)].first;
  }
  std::vector<std::string> names() const;
  parallel::TableImages no_images() const;
  std::vector<std::vector<std::string>> pieces_of(parallel::TableImages images) const;

  // Adds their tables, and a group for the rule of each.
  void add_to(ps::ModelSpec& spec) const;
  // Their groups' rates, behind those of the others.
  void add_rates(std::vector<double>& rates) const;

  // From here on modules may pull rows: for the step with the number that `sequence` gives.
  void connect(ps::Client& client, std::function<std::uint64_t()> sequence,
               std::chrono::milliseconds timeout);
  // The gradients of the step under way, to the servers.
  void push(ps::Client& client);

 private:
  class Rows;
  std::vector<std::pair<std::string, parallel::TableModule*>> modules_;
  std::vector<std::unique_ptr<Rows>> rows_;
};

}  // namespace cohort::train
