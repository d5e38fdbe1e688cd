#include "cohort/train/sync/group_evaluation.h"

#include <nlohmann/json.hpp>

#include "cohort/parallel/tensors/ops.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/train/sync/sums_table.h"

namespace cohort::train {

Range GroupEvaluation::share(std::int64_t items) const {
  return {items * replica_.rank / replica_.size, items * (replica_.rank + 1) / replica_.size};
}

Sums GroupEvaluation::add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items,
                             const Sums& none) {
  const SumsTable table(replica_, mine, first, items, none, {}, Deadline::after(timeout_));
  waited_ += table.waited();
  return table.total();
}

// A replica that has no rows learns from the others what rows look like.
torch::Tensor GroupEvaluation::gather_rows(const std::vector<torch::Tensor>& rows) {
  torch::Tensor mine = rows.empty() ? torch::Tensor() : torch::cat(rows);
  nlohmann::json row;
  if (mine.defined())
    row = {{"sizes", mine.sizes().slice(1).vec()}, {"type", static_cast<int>(mine.scalar_type())}};
  for (const std::string& text : parallel::gather_texts(*replica_.group, row.dump())) {
    auto other = nlohmann::json::parse(text);
    if (mine.defined() || other.is_null()) continue;
    auto sizes = other.at("sizes").get<std::vector<std::int64_t>>();
    sizes.insert(sizes.begin(), 0);
    mine = torch::empty(sizes, static_cast<torch::Dtype>(other.at("type").get<int>()));
  }
  return mine.defined() ? parallel::all_gather(*replica_.group, mine) : torch::empty({0});
}

}  // namespace cohort::train
