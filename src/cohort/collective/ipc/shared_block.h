#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cohort/base/unique_fd.h"
#include "cohort/collective/backend/failure.h"
#include "cohort/collective/device/cuda_driver.h"

namespace cohort::collective::ipc {

// The words of one rank, one from each peer. A peer writes 1, this rank's stream waits for bit 0 and
// writes 0: see Rounds for the order, which never writes a word twice before it is waited for.
enum class WordSet { even, odd, done };

// Host memory that all ranks of a group share and their GPUs see: the words that streams wait for,
// why the group is broken, and what each rank called. The words are the host's, not a GPU's, so that
// a rank ends its own waits by plain stores: no call of the driver can get stuck behind them.
//
// A memory file without a name, which goes with its last process. Ranks that are threads of one
// process share one mapping.
// Threads: thread-safe.
class SharedBlock {
 public:
  static constexpr std::uint32_t kSignal = 1;  // bit 0 is what streams wait for
  static constexpr std::uint32_t kEnded = 3;
  static constexpr std::uint64_t kLoggedCalls = 64;

  // What a rank published about itself.
  struct RankState {
    std::atomic<std::uint64_t> calls;   // made so far
    std::atomic<std::uint32_t> left;    // is past its calls, and makes no more
    std::atomic<std::uint32_t> closed;  // has closed its peers' memory
  };

  // Where another process finds a block.
  struct Name {
    std::int64_t pid = 0;
    std::int32_t fd = -1;
    std::uint64_t key = 0;
  };

  static std::shared_ptr<SharedBlock> create(int size);
  // Throws Error where that process' files cannot be reached.
  static std::shared_ptr<SharedBlock> open(const Name& name, int size);

  SharedBlock(UniqueFd file, std::byte* memory, std::size_t bytes, int size);
  SharedBlock(const SharedBlock&) = delete;
  ~SharedBlock();

  Name name() const;
  FailureRecord& failure() const;
  RankState& state(int rank) const;
  std::atomic<std::uint32_t>& word(int rank, WordSet set, int peer) const;
  // The fields of one entry of the log of calls: 3 + 2 size numbers.
  std::atomic<std::uint64_t>* log_entry(int rank, std::uint64_t call) const;

  // Lets GPUs reach the block; the address is the current context's.
  CudaDriver::Address address_for(const CudaDriver& driver);
  std::size_t offset_of_word(int rank, WordSet set, int peer) const;

 private:
  struct Header;
  Header& header() const;
  static std::size_t rank_bytes(int size);
  static std::size_t total_bytes(int size);
  std::size_t rank_offset(int rank) const;

  UniqueFd file_;
  std::byte* memory_;
  std::size_t bytes_;
  int size_;
  const CudaDriver* registered_by_ = nullptr;
  CudaDriver::Context registered_in_ = nullptr;
};

}  // namespace cohort::collective::ipc
