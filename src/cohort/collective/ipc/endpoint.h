#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"
#include "cohort/collective/device/cuda_driver.h"
#include "cohort/collective/ipc/shared_block.h"

namespace cohort::collective::ipc {

// What one rank has of a group on GPUs: its staging memory, its peers' (opened), and the words.
//
//   staging  slot 0 | slot 1 | scratch        peers read the slots, not the scratch
//
// Memory is freed in an order that no rank can break for another: a rank closes its peers' memory
// when its own streams are past their last call, and frees its own when all peers have closed it or
// are dead. A destructor may not wait for that, so what is left over goes to retire(), which keeps
// it until a later group of this process is formed or ends on the same device. Not on another: the
// driver frees when all work of the device is done, and that may need a call of the thread that frees.
//
// Threads: end_waits() from any thread; everything else from one at a time. The destructor joins the
// threads of this class, which it has told to end or which have ended.
class Endpoint {
 public:
  // A reduction of so few bytes is done by every rank for itself.
  static constexpr std::size_t kSmallBytes = 64 * 1024;

  struct Peer {
    CudaDriver::Address staging = 0;
    bool opened = false;  // by an IPC handle, to be closed
    UniqueFd process;     // readable when it is dead; none: a thread of this process
  };

  Endpoint(const CudaDriver& driver, int rank, int size, std::size_t slot_bytes);
  Endpoint(const Endpoint&) = delete;
  // Must not run before release(), but where the group was never formed.
  ~Endpoint();

  const CudaDriver& driver() const { return driver_; }
  CudaDriver::Context context() const { return context_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::size_t lane_bytes() const;  // of a slot that is divided among all ranks; whole cache lines
  std::size_t small_bytes() const { return std::min(kSmallBytes, slot_bytes_); }

  SharedBlock& block() const { return *block_; }
  const std::shared_ptr<SharedBlock>& shared_block() const { return block_; }
  void set_block(std::shared_ptr<SharedBlock> block);
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void close_peers() noexcept;

  CudaDriver::Address slot(int rank, int index) const;
  CudaDriver::Address scratch(int level) const;
  CudaDriver::Address word(int rank, WordSet set, int peer) const;

  // Whether the stream only records what it is given, into a graph.
  bool is_captured(DeviceStream stream) const { return driver_.capture_of(stream) != 0; }
  // Puts a call behind the one before it, also where that was made on another stream.
  void enter(DeviceStream stream);
  void leave(DeviceStream stream);

  bool has_captured() const { return last_capture_ != 0; }
  // No graph with calls of this rank is launched any more; to be said before is_idle() is asked. Only
  // the driver knows of replays, and its wait knows no deadline: it gets a thread.
  void end_replays() noexcept;
  // Whether the streams are past the last call and all replays.
  bool is_idle() const noexcept;
  bool await_idle(Deadline deadline) const;  // false: not at the deadline

  // From now on no stream of this rank waits for a peer, whatever was or will be put on it.
  void end_waits() noexcept;
  bool is_dead(int peer) const;

  // False while own streams or peers may still use what is here.
  bool release() noexcept;
  static void retire(std::unique_ptr<Endpoint> endpoint) noexcept;
  static void release_retired() noexcept;  // those of the current context that can be

 private:
  void set_words_ended();
  void keep_words_ended();

  const CudaDriver& driver_;
  CudaDriver::Context context_;
  int rank_;
  int size_;
  std::size_t slot_bytes_;
  std::size_t scratch_bytes_;
  std::shared_ptr<SharedBlock> block_;
  CudaDriver::Address block_address_ = 0;
  CudaDriver::Address staging_ = 0;
  std::vector<Peer> peers_;
  CudaDriver::Event last_call_ = nullptr;
  bool called_ = false;
  CudaDriver::Event last_captured_ = nullptr;
  std::uint64_t last_capture_ = 0;
  bool closed_ = false;
  std::atomic<bool> replays_over_ = false;
  std::thread replays_;  // waits for them

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread ending_;
};

}  // namespace cohort::collective::ipc
