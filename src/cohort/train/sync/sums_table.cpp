#include "cohort/train/sync/sums_table.h"

#include <algorithm>

namespace cohort::train {

SumsTable::SumsTable(const parallel::Replica& replica, std::span<const Sums> mine,
                     std::int64_t first, std::int64_t items, std::size_t metrics,
                     std::span<double> counts, Deadline deadline)
    : items_(items),
      width_(metrics + 2),
      table_(static_cast<std::size_t>(items) * width_ + counts.size()) {
  auto row = table_.begin() + first * static_cast<std::int64_t>(width_);
  for (const Sums& sums : mine) {
    row = std::copy(sums.values.begin(), sums.values.end(), row);
    *row++ = sums.samples;
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
  return table_[static_cast<std::size_t>(item + 1) * width_ - 1];
}

Sums SumsTable::total() const {
  Sums total(width_ - 2);
  for (std::int64_t i = 0; i < items_; ++i) {
    Sums sums(width_ - 2);
    std::copy_n(table_.begin() + i * static_cast<std::int64_t>(width_), width_ - 1,
                sums.values.begin());
    sums.samples = samples(i);
    total.add(sums);
  }
  return total;
}

}  // namespace cohort::train
