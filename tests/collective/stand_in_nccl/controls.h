#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

// A stand-in for libnccl.so.2 on machines without a GPU: ranks are threads of one process, memory is
// the host's, and calls run on a thread of each communicator. It follows what NCCL's documentation
// says of communicators that do not block: ncclInProgress, one call at a time, abort.
namespace cohort::collective::nccl::testing {

// What a test asks of it; for all communicators of the process.
struct Controls {
  std::atomic<int> version{22809};
  std::atomic<int> polls{0};                // how often a call is said to be in progress
  std::atomic<bool> never_ready{false};     // calls, and communicators, stay in progress
  std::atomic<bool> launches_block{false};  // ncclGroupEnd returns when its communicator is aborted
  std::atomic<int> failing_rank{-1};        // whose communicator is not made
  std::atomic<bool> no_id{false};           // ncclGetUniqueId fails
  std::atomic<int> alive{0};                // communicators that were made and not aborted
  std::atomic<int> group_calls{0};          // ncclGroupEnd

  // CUDA graphs that hold calls: as long as there are some, ncclCommAbort does not return.
  void set_graphs_alive(bool value) {
    const std::lock_guard lock(mutex);
    graphs_alive = value;
    changed.notify_all();
  }
  void wait_for_graphs() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !graphs_alive; });
  }

 private:
  std::mutex mutex;
  std::condition_variable changed;
  bool graphs_alive = false;
};

// Functions of the library beside NCCL's. Streams are made by it, for nothing else knows when their
// calls are done. synchronize returns false where a call was aborted.
using ControlsFunction = Controls*();             // stand_in_controls
using SetVersionFunction = void(int version);     // stand_in_set_version: of this thread; 0: all's
using StreamFunction = void*();                   // stand_in_stream
using SynchronizeFunction = bool(void* stream);   // stand_in_synchronize
using FreeStreamFunction = void(void* stream);    // stand_in_free_stream
using FailFunction = void(int rank, int result);  // stand_in_fail: all communicators of this rank

}  // namespace cohort::collective::nccl::testing
