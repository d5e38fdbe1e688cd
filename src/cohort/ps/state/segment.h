#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/state/slice_shape.h"

namespace cohort::ps {

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
// arena for tables, which keep their own order there (sparse_table.h).
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
  SliceSide current(int slice) const;
  // The version before the one that counts, until the next is begun. Nothing where there is none:
  // the first version that a segment has is alone.
  std::optional<SliceSide> previous(int slice) const;
  // The other side, to be written. Marks it as torn for readers.
  SliceSide begin_update(int slice);
  void publish(int slice);         // what begin_update() gave is the version that counts
  void abandon_update(int slice);  // it never happened

  std::span<std::byte>
  table_arena();  // reserved address space; call use_table_arena before touching
  // Takes memory for [offset, offset + bytes) of the arena; SystemError when there is none.
  void use_table_arena(std::uint64_t offset, std::uint64_t bytes);

  // Memory that it takes: dense state, and what tables use.
  std::uint64_t bytes() const;

 private:
  Segment();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::ps
