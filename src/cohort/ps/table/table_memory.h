#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "cohort/ps/table/undo_journal.h"

namespace cohort::ps {

// Memory that outlives the process: `reserved` is address space, of which `grow` makes the first
// so many bytes usable (it throws when there are none).
struct TableArena {
  std::span<std::byte> reserved;
  std::function<void(std::uint64_t bytes)> grow;
};

struct TableRun {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Slots of one size: those given back, linked through their first word, and those never used.
struct SlotPool {
  std::uint64_t slot_bytes = 0;
  std::uint64_t free_head = 0;
  std::uint64_t free_count = 0;
  std::uint64_t next = 0;
  std::uint64_t end = 0;

  std::uint64_t available() const { return free_count + (end - next) / slot_bytes; }
};

enum class SlotKind : std::uint8_t { row, candidate };

// All that changes of a table outside its slots and its index. Offsets are from the arena's start.
struct TableState {
  std::uint64_t version = 0;
  std::uint64_t rows = 0;
  std::uint64_t candidates = 0;
  std::uint64_t used = 0;  // bytes of the arena that are in use; what is behind is not
  TableRun index;
  std::uint64_t sweep = 0;  // where in the index the search for old rows goes on
  std::array<SlotPool, 2> pools;
  TableRun journal_next, journal_old;  // the journal is on its way from one to the other
  std::uint64_t spare_count = 0;
  std::array<TableRun, 64> spares;  // runs that an index or a journal grew out of
};

// What the memory was made for.
struct TableShape {
  std::uint64_t dimension = 0;
  std::uint64_t slots = 0;
  std::uint64_t workers = 0;

  bool operator==(const TableShape&) const = default;
};

// A table's arena, handed out in runs of pages and in slots of two sizes, every change of it under
// the protection of an undo journal. In memory: header with shape, journal words and TableState |
// ledger u64[workers] | pages.
//
// Between begin() and commit() or undo(): take(), retire(), allocate() and release(), and writes to
// what was saved in the journal. A process that dies in between has not changed anything; attach()
// sees to it.
// Threads: confined to one. Failure: MemoryLimit over `limit` (0: none) or the address space, and
// what TableArena::grow throws; a change that is under way is then the caller's to undo.
class TableMemory {
 public:
  TableMemory(std::string name, TableArena arena, std::uint64_t limit);

  void format(const TableShape& shape, std::uint64_t row_bytes, std::uint64_t candidate_bytes,
              std::uint64_t first_version);
  void attach(const TableShape& shape);  // throws InvalidInput where there is no such table

  TableState& state() { return *state_; }
  const TableState& state() const { return *state_; }
  std::span<std::uint64_t> ledger() { return ledger_; }
  std::span<const std::uint64_t> ledger() const { return ledger_; }
  const std::array<std::uint64_t, 2>& hash_keys() const;
  UndoJournal& journal() { return journal_; }
  std::byte* at(std::uint64_t offset) const { return arena_.reserved.data() + offset; }

  void begin();  // saves state and ledger
  void commit() { journal_.commit(); }
  void undo() { journal_.undo(); }
  std::uint64_t begin_bytes() const;  // of the journal that begin() takes

  TableRun take(std::uint64_t bytes);  // whole pages
  void retire(const TableRun& run);    // not to be used again before this change is committed
  // The slot's offset; its contents are as they were. reserve_slots() made sure that there is one.
  std::uint64_t allocate(SlotKind kind);
  void release(SlotKind kind, std::uint64_t slot);

  // Changes of their own, committed when they return.
  void reserve_slots(SlotKind kind, std::uint64_t count);
  void reserve_journal(std::uint64_t bytes);

 private:
  struct Header;
  void finish_journal_move();
  TableRun take_for_slots(std::uint64_t wanted, std::uint64_t chunk);
  Header& header() const;

  std::string name_;
  TableArena arena_;
  std::uint64_t limit_;
  UndoJournal journal_;
  TableState* state_ = nullptr;
  std::span<std::uint64_t> ledger_;
};

// begin() now; undo() at its end unless there was something else.
class TableChange {
 public:
  explicit TableChange(TableMemory& memory) : memory_(memory) { memory_.begin(); }
  ~TableChange() {
    if (!done_) memory_.undo();
  }
  TableChange(const TableChange&) = delete;
  TableChange& operator=(const TableChange&) = delete;

  void commit() {
    memory_.commit();
    done_ = true;
  }
  void leave_open() { done_ = true; }  // for a commit() or undo() of the memory later

 private:
  TableMemory& memory_;
  bool done_ = false;
};

}  // namespace cohort::ps
