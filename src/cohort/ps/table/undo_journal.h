#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cohort::ps {

// The words of a journal that are always at the same place. Zero: no journal, nothing saved.
struct JournalControl {
  std::atomic<std::uint64_t> place;  // first page << 32 | pages
  std::atomic<std::uint64_t> used;   // bytes of records; 0: no change is under way
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Old contents of what a change overwrites, in the memory that is changed, so that the process that
// finds the memory after the writer was killed can take the change back:
//
//   save(what will be overwritten) | overwrite | save ... | overwrite ... | commit() or undo()
//
// A record counts from one atomic store on, which comes before the bytes that it protects change;
// commit is one atomic store too. Undo restores records last to first, and may itself be cut off
// and begun again. Holds against the death of the process, not of the machine: then memory is lost
// anyway.
//
// A record: the old bytes, padded to 8 | offset u64 | length u64. Offsets are from `base`.
// Threads: confined to one. Ownership: none; base and control outlive it.
class UndoJournal {
 public:
  static constexpr std::uint64_t kPage = 4096;

  UndoJournal(std::byte* base, JournalControl& control) : base_(base), control_(control) {}

  bool is_open() const { return control_.used.load(std::memory_order_relaxed) != 0; }
  std::uint64_t first() const;     // where it lies
  std::uint64_t capacity() const;  // bytes
  std::uint64_t left() const;
  void move_to(std::uint64_t first, std::uint64_t bytes);  // whole pages; nothing may be saved

  // What a record of that many bytes takes.
  static constexpr std::uint64_t record_bytes(std::uint64_t bytes) {
    return (bytes + 7) / 8 * 8 + 16;
  }
  void save(const void* what, std::uint64_t bytes);
  void commit();
  void undo();

 private:
  std::byte* base_;
  JournalControl& control_;
};

}  // namespace cohort::ps
