#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/state/segment.h"
#include "cohort/ps/table/sparse_table.h"

namespace cohort::ps {

// The embedding tables of one server, each in its part of the segment's arena, all of them within
// one memory limit.
//
// Threads: confined to one. Ownership: `spec` and the segment must outlive it.
// Failure: MemoryLimit when a table would grow beyond what the limit leaves; SystemError.
class ServerTables {
 public:
  // `dense_bytes`: what the limit has to hold beside the tables. `limit` 0: none.
  ServerTables(int server, const ModelSpec& spec, std::uint64_t dense_bytes, std::uint64_t limit);

  // Address space for all tables of a model.
  static std::uint64_t arena_bytes(const ModelSpec& spec);

  // Makes the tables in the segment's arena, or finds those that were made there before.
  void create(Segment& segment, std::uint64_t first_step);
  void open(Segment& segment);

  int count() const { return static_cast<int>(tables_.size()); }
  SparseTable& at(int table) const { return *tables_.at(static_cast<std::size_t>(table)); }

 private:
  TableArena arena(Segment& segment, std::size_t table);
  std::uint64_t table_limit() const;  // 0: none
  const UpdateRule& rule_of(std::size_t table) const;

  int server_;
  const ModelSpec& spec_;
  std::uint64_t dense_bytes_;
  std::uint64_t limit_;
  std::vector<std::unique_ptr<SparseTable>> tables_;
  std::vector<std::uint64_t> used_;  // bytes of the arena, by table
};

}  // namespace cohort::ps
