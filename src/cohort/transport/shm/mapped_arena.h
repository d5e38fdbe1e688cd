#pragma once

#include <map>
#include <mutex>

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

// The arena of one rank over a mapped memfd. First-fit in its own part; large blocks go back to
// the system when freed.
class MappedArena : public Arena {
 public:
  MappedArena(int rank, const ArenaLayout& layout, std::unique_ptr<Mapping> mapping);

  std::byte* allocate(std::size_t bytes) override;
  void free(std::byte* memory) override;
  SharedRef locate(const void* memory, std::size_t bytes) const override;
  std::byte* resolve(SharedRef ref) const override { return mapping_->data() + ref.value; }

  // Writes this process into the table, waits for the others, and watches them from then on. May be
  // called again after a TimeoutError.
  void meet(Deadline deadline);

 private:
  std::unique_ptr<Mapping> mapping_;
  std::size_t part_bytes_;
  std::mutex mutex_;                         // guards the two maps
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
  std::map<std::size_t, std::size_t> allocated_;
  std::unique_ptr<Watcher> watcher_;  // last: it uses the mapping
};

}  // namespace cohort::transport::shm
