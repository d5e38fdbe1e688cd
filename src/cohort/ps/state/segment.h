#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/rules/update_rule.h"

namespace cohort::ps {

// What a slice needs in a segment.
struct SliceShape {
  ElementType type = ElementType::f32;
  std::uint64_t elements = 0;
  int slots = 0;
};

// One complete version of one slice: plain memory, valid as long as the Segment.
struct SliceSide {
  std::byte* values = nullptr;
  std::array<std::byte*, kMaxSlots> slots{};
  std::uint64_t* updates = nullptr;  // how many updates are in it, those before a resume included
  std::span<std::uint64_t> ledger;   // by worker: its pushes up to this sequence are in it
};

// A server's dense state in one memory file: for each slice two sides, of which one is the complete
// version that counts and the other is where the next one is written. A version becomes the
// one that counts by one atomic store (publish()), so a process that dies at any instant leaves
// every slice whole, with a ledger that says exactly what is in it. Behind the dense state lies
// room for tables, which keep their own order there (sparse_table.h).
//
// Readers of another process map the same file read-only and copy values out without asking
// (SegmentReader): a side is overwritten only by the version after the next, which they notice.
//
// Threads: writing is confined to one thread of one process; readers are any.
// Ownership: maps the file, and keeps its own duplicate of the descriptor.
// Failure: SystemError (memory is out, among others); open() throws InvalidInput when the file is
// not a segment, is of another version, or is damaged.
class Segment {
 public:
  // `spec` is kept in the segment as it is. The file is emptied first. `table_bytes`: address space
  // for tables; memory is taken as it is used. Versions and ledgers begin at `first_step`. The
  // segment does not count as initialised.
  static std::unique_ptr<Segment> create(int file, const std::string& spec, int workers,
                                         std::span<const SliceShape> slices,
                                         std::uint64_t table_bytes, std::uint64_t first_step);
  // Nothing where the file is empty or its initialisation was never completed.
  static std::unique_ptr<Segment> open(int file);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& spec() const;
  int slices() const;
  const SliceShape& shape(int slice) const;
  int workers() const;
  int file() const;  // for readers; reopen read-only before it is handed to another process

  // After this a server that is started anew goes on from here.
  void mark_initialised();
  bool is_initialised() const;

  // Before mark_initialised(): the slice is at this version, and its ledger too. What is in it is
  // then written through current(). It has no version before it, unless add_previous() gives the
  // memory for one.
  void set_version(int slice, std::uint64_t version);
  SliceSide add_previous(int slice);

  std::uint64_t version(int slice) const;  // of the side that counts
  SliceSide current(int slice);
  // The version before the one that counts, until the next is begun. Nothing where there is none:
  // the first version that a segment has is alone.
  std::optional<SliceSide> previous(int slice);
  // The other side, to be written. Marks it as torn for readers.
  SliceSide begin_update(int slice);
  void publish(int slice);         // what begin_update() gave is the version that counts
  void abandon_update(int slice);  // it never happened

  std::span<std::byte> table_room();  // reserved address space; call use_table_room before touching
  // Takes memory for [offset, offset + bytes) of the room; SystemError when there is none.
  void use_table_room(std::uint64_t offset, std::uint64_t bytes);

  // Memory that it takes: dense state, and what tables use.
  std::uint64_t bytes() const;

 private:
  Segment();
  struct State;
  std::unique_ptr<State> state_;
};

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
