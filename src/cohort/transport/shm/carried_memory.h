#pragma once

#include <memory>
#include <span>
#include <string>

namespace cohort::transport::shm {

class ArenaMemory;

// The memory of the arena that a process was in last, held for the next one. A model's worth of
// fresh pages costs more than the rest of a recovery, and the survivors of a loss have theirs
// mapped.
//
// The next arena takes the memory where all its ranks hold the same one, and every process that
// ever mapped it and is not among them has ended: all its threads, by the kernel's word. One that
// was only shut out, because it was stopped or cut off, may go on with the instruction that it was
// stopped in, which may write; then the next arena's memory is new, and the old one is that
// process's alone.
//
// What the ranks of the earlier arena allocated stays allocated until it is freed, in whichever
// arena the process is then. Tables, and what the earlier arena had retired, stay until the memory
// goes: with the next member that joins, at the latest (under 2 MB a rank and loss).
//
// The ranks of the earlier arena must have stopped using it before they tell each other their
// claims.
//
// Threads: confined to one at a time. Ownership: keeps the memory mapped.
class CarriedMemory {
 public:
  // As a rank tells the others before all call join(): which memory it holds, and which part of it
  // is its own. Empty: none.
  std::string claim() const;
  void set(std::shared_ptr<ArenaMemory> memory) { memory_ = std::move(memory); }
  void reset() { memory_.reset(); }

  // What all ranks hold, as their claims say; nullptr: they do not.
  std::shared_ptr<ArenaMemory> common(std::span<const std::string> claims) const;
  // Whether no process but those of the claims can reach it. Waits a moment for one that is ending.
  static bool belongs_to(const ArenaMemory& memory, std::span<const std::string> claims);

 private:
  std::shared_ptr<ArenaMemory> memory_;
};

}  // namespace cohort::transport::shm
