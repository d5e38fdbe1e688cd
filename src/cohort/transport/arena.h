#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cohort/transport/doorbell.h"

namespace cohort::transport {

// A place in memory as it is told to another rank. `none`: the peer cannot reach it.
struct SharedRef {
  enum class Kind : std::uint32_t { none, offset, pointer };
  Kind kind = Kind::none;
  std::uint64_t value = 0;

  bool reachable() const { return kind != Kind::none; }
};

// What every rank of an arena knows about one of them; lives in shared memory.
struct alignas(64) ArenaMember {
  Doorbell bell;
  std::atomic<std::uint32_t> joined;  // set when the three below are valid
  std::int32_t pid;
  std::uint64_t start_time;         // of the process, so that a pid used again is not taken for it
  cpu_set_t cores;                  // on which it may run
  std::atomic<std::uint32_t> dead;  // set once, by the process that saw it die
};

struct alignas(64) ArenaHeader {
  std::atomic<std::uint32_t> deaths;  // how many `dead` marks there are: a quick look
};

// Memory that a fixed set of ranks on one host can all reach. One object a rank; each rank
// allocates from its own part without asking the others. The two kinds: inproc (threads; every
// pointer is reachable) and shm (one sparse memfd that every process maps).
//
// Threads: allocate() and free() are thread-safe, the rest is immutable or atomic.
// Ownership: an Arena must outlive what was allocated from it; memory goes back to the system when
// the last rank lets go, by its end or by its death.
// Failure: allocate() throws Error when this rank's part is used up.
class Arena {
 public:
  virtual ~Arena() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // 64-byte aligned (page-aligned from a page on); contents unspecified.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;

  // How peers can name [memory, memory + bytes), or none.
  virtual SharedRef locate(const void* memory, std::size_t bytes) const = 0;
  // Where a ref that some rank of this arena located lies in this address space.
  virtual std::byte* resolve(SharedRef ref) const = 0;

  // Writes this process into the table: pid, start time, cores.
  void introduce();

  ArenaMember& member(int rank) const { return members_[rank]; }
  std::uint32_t deaths() const { return header_->deaths.load(); }
  // Marks a rank dead and wakes everyone. Idempotent, from any thread of any rank.
  void mark_dead(int rank);

  // Frees `memory`, which this rank allocated, at some later allocation after `holders`, a counter
  // in that memory, has fallen to zero: what peers still look at is not used again.
  void retire(std::byte* memory, const std::atomic<std::uint32_t>& holders);
  void free_retired();

  // Bytes at the start of shared memory that hold the header and the members.
  static std::size_t table_bytes(int size) {
    return sizeof(ArenaHeader) + sizeof(ArenaMember) * static_cast<std::size_t>(size);
  }

 protected:
  // `table` is zero-filled shared memory of table_bytes(size); it must outlive this object.
  Arena(int rank, int size, std::byte* table);

 private:
  int rank_;
  int size_;
  ArenaHeader* header_;
  ArenaMember* members_;
  std::mutex retired_mutex_;
  std::vector<std::pair<std::byte*, const std::atomic<std::uint32_t>*>> retired_;
};

}  // namespace cohort::transport
