#pragma once

#include <cstdint>

#include "cohort/ps/table/table_memory.h"

namespace cohort::ps {

// From 64-bit keys to the slots of a table: a hash table with open addressing and linear probing in
// the table's memory, kept at most two thirds full. An entry has 30 bits of the key's hash and the
// slot's place, so that most comparisons and a rebuild touch no slot. The hash is keyed with random
// words of the table: keys that collide cannot be made up beforehand. A slot begins with its key.
//
// insert(), replace() and erase() belong to a change of the memory; reserve() is one of its own,
// which builds the larger index beside the old one.
// Threads: confined to one. Ownership: none; the memory outlives it.
class KeyIndex {
 public:
  explicit KeyIndex(TableMemory& memory) : memory_(memory) {}

  std::uint64_t find(std::uint64_t key) const;  // the slot; 0: none
  void insert(std::uint64_t key, std::uint64_t slot);
  void replace(std::uint64_t key, std::uint64_t slot, std::uint64_t by);
  // Closes the gap, so the next entry may then stand at this position.
  void erase(std::uint64_t position);

  std::uint64_t positions() const;
  std::uint64_t slot_at(std::uint64_t position) const;  // 0: none

  void reserve(std::uint64_t entries);

  // Of the journal, that one insert() or replace() takes.
  static constexpr std::uint64_t kJournalBytes = UndoJournal::record_bytes(sizeof(std::uint64_t));

 private:
  std::uint64_t hash(std::uint64_t key) const;
  std::uint64_t* entries() const;
  std::uint64_t home(std::uint64_t entry) const;
  void write(std::uint64_t position, std::uint64_t entry);

  TableMemory& memory_;
};

}  // namespace cohort::ps
