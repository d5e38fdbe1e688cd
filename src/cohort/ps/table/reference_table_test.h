#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cohort/base/data/counter_random.h"
#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/rules/apply_update.h"
#include "cohort/ps/table/row_gradients.h"

namespace cohort::ps {

// For tests: what SparseTable promises, in the plainest way.
class ReferenceTable {
 public:
  ReferenceTable(const TableSpec& spec, const UpdateRule& rule) : spec_(spec), rule_(rule) {}

  std::uint64_t version() const { return version_; }

  void update(const RowGradients& gradients, double lr, std::uint64_t version) {
    const auto dimension = static_cast<std::size_t>(spec_.dimension);
    for (std::size_t i = 0; i < gradients.keys.size(); ++i) {
      Row& row = rows_[gradients.keys[i]];
      if (row.occurrences == 0 || expired(row)) row = {0, 0, version, beginning(gradients.keys[i])};
      row.last_used = version;
      if (++row.occurrences < spec_.admit_after) continue;
      Update update;
      update.elements = dimension;
      update.gradient = reinterpret_cast<const std::byte*>(gradients.values.data() + i * dimension);
      auto* at = reinterpret_cast<std::byte*>(row.state.data());
      update.values = update.new_values = at;
      for (std::size_t slot = 0; slot < std::size_t(slot_count(rule_)); ++slot)
        update.slots[slot] = update.new_slots[slot] = at + (slot + 1) * dimension * sizeof(float);
      update.number = ++row.updates;
      update.lr = lr;
      apply(rule_, update);
    }
    version_ = version;
  }

  std::vector<float> read(std::span<const std::uint64_t> keys) const {
    std::vector<float> values;
    for (std::uint64_t key : keys) {
      const auto found = rows_.find(key);
      const bool is_there = found != rows_.end() && !expired(found->second) &&
                            found->second.occurrences >= spec_.admit_after;
      std::vector<float> row = is_there ? found->second.state : beginning(key);
      row.resize(static_cast<std::size_t>(spec_.dimension));
      if (!is_there && spec_.admit_after > 1) row.assign(row.size(), 0);
      values.insert(values.end(), row.begin(), row.end());
    }
    return values;
  }

  std::size_t live() const {
    std::size_t count = 0;
    for (const auto& [key, row] : rows_)
      count += !expired(row) && row.occurrences >= spec_.admit_after;
    return count;
  }

 private:
  struct Row {
    int occurrences = 0;
    std::uint64_t updates = 0;
    std::uint64_t last_used = 0;
    std::vector<float> state;
  };

  bool expired(const Row& row) const {
    return spec_.keep_for != 0 && version_ - row.last_used > spec_.keep_for;
  }

  std::vector<float> beginning(std::uint64_t key) const {
    CounterRandom random(spec_.seed, RandomStream::kEmbeddingRow, key);
    std::vector<float> state;
    for (int i = 0; i < spec_.dimension; ++i)
      state.push_back(float(spec_.initial_scale) * (2 * random.uniform_float() - 1));
    for (int slot = 0; slot < slot_count(rule_); ++slot)
      state.insert(state.end(), static_cast<std::size_t>(spec_.dimension),
                   float(initial_slot_value(rule_, slot)));
    return state;
  }

  TableSpec spec_;
  UpdateRule rule_;
  std::uint64_t version_ = 0;
  std::unordered_map<std::uint64_t, Row> rows_;
};

// Gradients of update `version`: of `rows` different keys below `keys`, multiplied by `stride`.
inline RowGradients some_gradients(std::uint64_t version, std::size_t rows, std::uint64_t keys,
                                   int dimension, std::uint64_t stride = 1) {
  CounterRandom random(17, RandomStream::kUser, version);
  RowGradients drawn;
  for (std::size_t i = 0; i < rows; ++i) {
    drawn.keys.push_back(random.below(keys) * stride);
    for (int j = 0; j < dimension; ++j) drawn.values.push_back(random.uniform_float() - 0.5f);
  }
  const RowGradients* all[] = {&drawn};
  return merge(all, dimension, 1);
}

}  // namespace cohort::ps
