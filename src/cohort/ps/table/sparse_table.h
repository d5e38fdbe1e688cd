#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/table/row_gradients.h"
#include "cohort/ps/table/row_store.h"

namespace cohort::ps {

// One server's rows of one embedding table: values, the rule's slots, count and age of each, in
// memory that outlives the process (the arena behind a segment). A change is made whole or not at
// all: old contents go to a journal in the same memory first, and a process that finds a journal
// takes the change back (open()).
//
// A row has optimizer state of its own, also its own number of updates (what torch calls lazy, as
// in SparseAdam): a row that a step does not touch does not move, not even by momentum or weight
// decay.
// Rows appear when first pushed, with initial values from (seed, key) alone, so it does not matter
// when or where. With admit_after k a key is only counted until its k-th update, which is the first
// that changes it. What has no row reads as its initial values where admit_after is 1 and as zeros
// otherwise. What was not in an update for more than keep_for versions has no row any more: that is
// so for readers and updates at once, while its memory is found and used again bit by bit.
// The same updates give the same bits, whatever the layout: across growth, eviction and snapshots.
//
// Threads: confined to one. Failure: MemoryLimit when an update would go over the limit,
// InvalidInput for a key that the table does not have or sizes that do not fit; the update is then
// not made at all.
class SparseTable {
 public:
  // Versions and ledgers begin at `first_version`.
  static std::unique_ptr<SparseTable> create(const TableSpec& spec, const UpdateRule& rule,
                                             int workers, TableArena arena,
                                             std::uint64_t memory_limit,
                                             std::uint64_t first_version = 0);
  // What a create()d table in that memory became; a change that was under way is taken back.
  static std::unique_ptr<SparseTable> open(const TableSpec& spec, const UpdateRule& rule,
                                           int workers, TableArena arena,
                                           std::uint64_t memory_limit);

  const TableSpec& spec() const { return store_.spec; }
  // As of the last commit().
  std::uint64_t version() const { return store_.memory.state().version; }
  std::uint64_t ledger(int worker) const {
    return store_.memory.ledger()[static_cast<std::size_t>(worker)];
  }
  std::uint64_t rows() const { return store_.memory.state().rows; }
  // Keys that are only counted so far.
  std::uint64_t candidates() const { return store_.memory.state().candidates; }
  std::uint64_t bytes() const { return store_.memory.state().used; }  // of the arena

  // values[i * dimension ...] of each key. Marks nothing as used. Between prepare() and commit():
  // the new ones.
  void read(std::span<const std::uint64_t> keys, float* values) const;

  // Applies one update: prepares it in the journal's protection and leaves it uncommitted; then
  // commit() or roll_back(). `version`, larger than version(), is the version that it makes. A key
  // that occurs several times has its gradients summed. False when a gradient was not finite.
  bool prepare(const RowGradients& gradients, double lr, std::uint64_t version,
               std::span<const std::pair<int, std::uint64_t>> ledger);
  void commit();
  void roll_back();

  // All rows and candidates (row_snapshot.h), as they count.
  void write_snapshot(const std::function<void(std::string_view piece)>& write) const;
  // Takes over the rows of a piece that `mine` wants (none: all).
  void apply_snapshot_piece(std::string_view piece,
                            const std::function<bool(std::uint64_t key)>& mine = {});
  // For a table made from a snapshot, before its pieces are read.
  void set_progress(std::uint64_t version, std::span<const std::uint64_t> ledger);

 private:
  SparseTable(const TableSpec& spec, const UpdateRule& rule, TableArena arena,
              std::uint64_t memory_limit);

  RowStore store_;
  bool prepared_ = false;
  std::uint64_t next_version_ = 0;  // of the update that is prepared
  std::vector<std::pair<int, std::uint64_t>> next_ledger_;
};

}  // namespace cohort::ps
