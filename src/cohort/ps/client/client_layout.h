#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/model/placement.h"
#include "cohort/ps/state/segment_reader.h"

namespace cohort::ps {

// Where a slice is, as this worker sees it.
struct SliceLocation {
  Slice slice;
  int local = 0;  // its number on its server
  ElementType type = ElementType::f32;
  std::size_t element_bytes = 4;
  std::uint64_t bytes = 0;          // of its values
  std::uint64_t outbox_offset = 0;  // of its partials in the memory for its server
  std::uint64_t inbox_offset = 0;   // of its values in the memory that they are received in
  int slots = 0;
};

// The model's slices and what this worker needs for each. A value; immutable once made.
struct ClientLayout {
  ClientLayout(const ModelSpec& model, int worker, int servers);

  ModelSpec spec;
  std::string spec_text;
  int nodes = 1;  // partials that this worker pushes of every block
  std::vector<Slice> slices;
  std::vector<SliceLocation> placed;        // the same
  std::vector<std::vector<int>> of_block;   // slices, ascending
  std::vector<std::vector<int>> of_server;  // by local number
  std::vector<std::uint64_t> outbox_bytes;  // by server
  std::vector<std::uint64_t> inbox_bytes;
};

// A memory file, mapped: the partials of one server's slices. A server on this host maps it too, so
// it is sealed: it never shrinks, and grows once.
class OutboxMemory {
 public:
  OutboxMemory();
  ~OutboxMemory();
  OutboxMemory(const OutboxMemory&) = delete;
  OutboxMemory& operator=(const OutboxMemory&) = delete;

  void grow(std::uint64_t bytes);  // from nothing
  std::byte* at(std::uint64_t offset) const { return memory_ + offset; }
  int file() const { return file_.get(); }

 private:
  UniqueFd file_;
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A set of runs, cut at the slices' bounds and sorted by slice.
class RunPlan {
 public:
  RunPlan() = default;
  // Throws InvalidInput for a run outside its block.
  RunPlan(const ClientLayout& layout, std::span<const BlockRun> runs);

  bool is_of(std::span<const BlockRun> runs) const;
  std::span<const ReadRun> of_slice(int slice) const;  // relative to the slice; empty: not wanted
  std::span<const int> slices() const { return slices_; }  // that are wanted, ascending

 private:
  std::vector<BlockRun> runs_;
  std::vector<ReadRun> pieces_;
  std::vector<std::size_t> first_;  // of each slice in pieces_, and one more
  std::vector<int> slices_;
};

}  // namespace cohort::ps
