#include "cohort/train/sync/sums_table.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::train {

SumsTable::SumsTable(const parallel::Replica& replica, std::span<const Sums> mine,
                     std::int64_t first, std::int64_t items, const Sums& none,
                     std::span<double> counts, Deadline deadline)
    : items_(items),
      none_(none),
      table_(static_cast<std::size_t>(items) * none.width() + counts.size()) {
  auto next = table_.begin() + first * static_cast<std::int64_t>(none.width());
  for (const Sums& sums : mine) {
    const std::vector<double> row = sums.row();
    COHORT_CHECK(row.size() == none.width(), "a row of {} numbers in a table of {}", row.size(),
                 none.width());
    next = std::copy(row.begin(), row.end(), next);
  }
  const auto tail = table_.end() - static_cast<std::int64_t>(counts.size());
  std::copy(counts.begin(), counts.end(), tail);
  if (replica.size == 1) return;
  const auto begun = std::chrono::steady_clock::now();
  replica.group->all_reduce(std::span(table_), {.deadline = deadline});
  waited_ = std::chrono::steady_clock::now() - begun;
  std::copy(tail, table_.end(), counts.begin());
}

double SumsTable::samples(std::int64_t item) const {
  return table_[static_cast<std::size_t>(item + 1) * none_.width() - 1];
}

Sums SumsTable::total() const {
  Sums total = none_;
  for (std::int64_t i = 0; i < items_; ++i) {
    Sums sums = none_;
    sums.set_row(table_.data() + static_cast<std::size_t>(i) * none_.width());
    total.add(sums);
  }
  return total;
}

}  // namespace cohort::train
