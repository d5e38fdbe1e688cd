#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/rules/update_rule.h"
#include "cohort/ps/table/key_index.h"
#include "cohort/ps/table/table_memory.h"

namespace cohort::ps {

// How a slot begins. Values and the rule's slots follow where the slot is large enough.
struct RowHead {
  static constexpr std::uint64_t kCandidate = std::uint64_t{1} << 63;  // counted, has no values
  static constexpr std::uint64_t kSmall = std::uint64_t{1} << 62;      // a slot of a head alone

  std::uint64_t key = 0;
  std::uint64_t last_used = 0;  // the version that it was last in
  std::uint64_t marks = 0;      // and in the lower bits how many updates it was in

  bool is_candidate() const { return (marks & kCandidate) != 0; }
  bool is_small() const { return (marks & kSmall) != 0; }
  std::uint64_t count() const { return marks & ~(kCandidate | kSmall); }
};

// The rows of one server's share of a table in the table's memory: how they are found, made, updated
// by the table's rule, and given up. What a whole update is, and when it counts, is SparseTable's
// concern (sparse_table.h).
//
// Threads: confined to one. Failure: as SparseTable.
class RowStore {
 public:
  RowStore(const TableSpec& table, const UpdateRule& update_rule, TableArena arena,
           std::uint64_t limit)
      : spec(table),
        rule(update_rule),
        memory(table.name, std::move(arena), limit),
        index(memory) {}

  const TableSpec spec;
  const UpdateRule rule;
  TableMemory memory;
  KeyIndex index;

  TableShape shape(int workers) const;
  std::uint64_t row_floats() const;  // values and slots
  std::uint64_t row_bytes() const;
  RowHead& head(std::uint64_t slot) const { return *reinterpret_cast<RowHead*>(memory.at(slot)); }
  float* values(std::uint64_t slot) const {
    return reinterpret_cast<float*>(memory.at(slot) + sizeof(RowHead));
  }
  bool expired(const RowHead& row) const {
    return spec.keep_for != 0 && memory.state().version - row.last_used > spec.keep_for;
  }
  void check_key(std::uint64_t key) const;

  // Where each key is (0: nowhere), after memory for all that an update of them needs is reserved.
  std::vector<std::uint64_t> locate(const std::vector<std::uint64_t>& keys);
  // Memory for so many new ones, and for a change of so many rows.
  void reserve(std::uint64_t rows, std::uint64_t candidates, std::uint64_t touched);
  // Looks at this many places of the index for rows that expired, and frees them.
  void sweep(std::uint64_t places);

  // One row's part of an update. False when its gradient was not finite.
  bool update(std::uint64_t key, std::uint64_t slot, const float* gradient, double lr,
              std::uint64_t version);
  std::uint64_t add(std::uint64_t key, bool candidate);
  void initial_values(std::uint64_t key, float* values) const;

 private:
  void forget(std::uint64_t slot);            // an expired one begins anew
  std::uint64_t promote(std::uint64_t slot);  // the new slot of a candidate that becomes a row
  bool apply_rule(std::uint64_t slot, const float* gradient, double lr) const;
  void initialise(std::uint64_t slot) const;
};

}  // namespace cohort::ps
