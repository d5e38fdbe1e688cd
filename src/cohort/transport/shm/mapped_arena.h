#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/transport/arena.h"
#include "cohort/transport/shm/watcher.h"

namespace cohort::transport::shm {

// One mapping of the arena's file. Unmapped when destroyed.
class Mapping {
 public:
  Mapping(const UniqueFd& fd, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

// How the file is laid out: the table, then `size` parts.
struct ArenaLayout {
  int size = 1;
  std::size_t part_bytes = 0;

  std::size_t part_offset(int rank) const;
  std::size_t file_bytes() const { return part_offset(size); }
};

UniqueFd make_arena_file(const ArenaLayout& layout);

// An arena's file as one process has it: the mapping of the whole, and the process's own part, from
// which it allocates, first fit. Arenas that follow one another may be in the same memory
// (carried_memory.h).
//
// Threads: thread-safe. Failure: allocate() throws Error when the part is used up.
class ArenaMemory {
 public:
  // `name`: of this memory, unique in the world. `keeps_pages`: freed blocks keep theirs for the
  // next block there; otherwise large ones go back to the system.
  ArenaMemory(std::string name, const UniqueFd& file, const ArenaLayout& layout, int part,
              bool keeps_pages);

  const std::string& name() const { return name_; }
  const ArenaLayout& layout() const { return layout_; }
  int part() const { return part_; }
  std::byte* data() const { return mapping_.data(); }
  std::size_t bytes() const { return mapping_.bytes(); }

  std::byte* allocate(std::size_t bytes);
  void free(std::byte* memory);

 private:
  std::string name_;
  ArenaLayout layout_;
  int part_;
  bool keeps_pages_;
  Mapping mapping_;
  std::mutex mutex_;                         // guards the two maps
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
  std::map<std::size_t, std::size_t> allocated_;
};

// The arena of one rank in such a memory.
class MappedArena : public Arena {
 public:
  // `table`: the offset of the arena's table, zeros so far.
  MappedArena(int rank, int size, std::shared_ptr<ArenaMemory> memory, std::size_t table);

  std::byte* allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  void free(std::byte* memory) override { memory_->free(memory); }
  SharedRef locate(const void* memory, std::size_t bytes) const override;
  std::byte* resolve(SharedRef ref) const override { return memory_->data() + ref.value; }
  const std::shared_ptr<ArenaMemory>& memory() const { return memory_; }

  // Writes this process into the table, waits for the others, and watches them from then on. May be
  // called again after a TimeoutError.
  void meet(Deadline deadline);

 private:
  std::shared_ptr<ArenaMemory> memory_;
  std::unique_ptr<Watcher> watcher_;  // last: it uses the mapping
};

}  // namespace cohort::transport::shm
