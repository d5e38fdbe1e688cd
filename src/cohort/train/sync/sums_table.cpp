#include "cohort/train/sync/sums_table.h"

#include <algorithm>
#include <functional>

#include "cohort/base/error.h"

namespace cohort::train {

SumsTable::SumsTable(const parallel::Replica& replica, std::span<const Sums> mine,
                     std::int64_t first, std::int64_t items, const Sums& none,
                     std::span<double> flags, Deadline deadline)
    : items_(items),
      none_(none),
      table_(static_cast<std::size_t>(items) * none.ordered_width() + none.counts.size() +
             flags.size()) {
  const auto width = static_cast<std::ptrdiff_t>(none.ordered_width());
  const auto flags_at = table_.end() - static_cast<std::ptrdiff_t>(flags.size());
  const auto counts_at = flags_at - static_cast<std::ptrdiff_t>(none.counts.size());
  auto next = table_.begin() + first * width;
  for (const Sums& sums : mine) {
    COHORT_CHECK(sums.has_shape_of(none), "a row of {} numbers in a table of {}", sums.width(),
                 none.width());
    const std::vector<double> row = sums.row();
    next = std::copy_n(row.begin(), width, next);
    std::transform(sums.counts.begin(), sums.counts.end(), counts_at, counts_at, std::plus());
  }
  std::copy(flags.begin(), flags.end(), flags_at);
  if (replica.size == 1) return;
  const auto begun = std::chrono::steady_clock::now();
  replica.group->all_reduce(std::span(table_), {.deadline = deadline});
  waited_ = std::chrono::steady_clock::now() - begun;
  std::copy(flags_at, table_.end(), flags.begin());
}

double SumsTable::samples(std::int64_t item) const {
  return table_[static_cast<std::size_t>(item + 1) * none_.ordered_width() - 1];
}

Sums SumsTable::total() const {
  Sums total = none_;
  std::vector<double> row(none_.width());  // of an item; counts are added once
  auto next = table_.begin();
  for (std::int64_t i = 0; i < items_; ++i) {
    std::copy_n(next, none_.ordered_width(), row.begin());
    next += static_cast<std::ptrdiff_t>(none_.ordered_width());
    Sums sums = none_;
    sums.set_row(row.data());
    total.add(sums);
  }
  std::copy_n(next, total.counts.size(), total.counts.begin());
  return total;
}

}  // namespace cohort::train
