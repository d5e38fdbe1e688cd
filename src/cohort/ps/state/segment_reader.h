#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cohort/base/unique_fd.h"

namespace cohort::ps {

// Elements [first, first + count) of a slice, to `to`.
struct ReadRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::byte* to = nullptr;
};

// Another process's view of a segment. Thread-safe.
class SegmentReader {
 public:
  explicit SegmentReader(UniqueFd file);  // read-only is enough
  ~SegmentReader();

  std::uint64_t version(int slice) const;
  // Of the version that counts: the sequence up to which that worker's pushes are in it.
  std::uint64_t ledger(int slice, int worker) const;

  // Copies the runs, all of one and the same version of the slice, and returns that version. Never
  // waits for the writer; tries again when overtaken.
  std::uint64_t read(int slice, std::span<const ReadRun> runs) const;

  // The same of the version before the one that counts, where that is `version`. False, with
  // nothing to rely on in the runs: it is not, or its memory is in use for the next.
  bool read_before(int slice, std::uint64_t version, std::span<const ReadRun> runs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::ps
