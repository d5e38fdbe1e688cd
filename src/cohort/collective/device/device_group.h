#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cohort/collective/reduction/types.h"

namespace cohort::collective {

// A stream of a GPU as its driver knows it (cudaStream_t); null: the default stream.
using DeviceStream = void*;

// Collectives on the memory of GPUs, beside a Group of the same ranks: one GPU a rank. A call puts
// the operation on `stream` behind what is there already and returns; the host waits for nothing
// but, where a backend has to, for its peers to have made the same call. Memory must stay until the
// stream is past the call.
//
// Counts are elements. `in` and `out` may be the same where a Group allows that. Everything but
// all_reduce and reduce_scatter moves bytes and has no order of addition; those two add in the order
// that the backend likes.
//
// Threads: one at a time, but abort() from any; ranks make the same calls in the same order.
// Failure: PeerError, TimeoutError and ProtocolError as Group's; after one of them every call throws.
// What breaks while the GPU works is thrown by check(), or by a later call; a thread of the group
// notices it, too, and ends the calls under way, so that a host that is blocked in a launch comes
// back. The destructor does not throw, and ends what is under way.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "NCCL 2.28.9", "CUDA IPC"
  // Whether calls may be made while the stream is captured into a CUDA graph.
  virtual bool can_be_captured() const = 0;

  // Rank r gives counts[r] elements; `out` is packed in rank order.
  virtual void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                            DataType dtype, DeviceStream stream) = 0;
  // The elements for rank r lie behind those for rank r - 1, those from it alike.
  virtual void all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                            std::span<const std::size_t> receive_counts, DataType dtype,
                            DeviceStream stream) = 0;
  virtual void broadcast(void* data, std::size_t count, DataType dtype, int root,
                         DeviceStream stream) = 0;
  virtual void all_reduce(const void* in, void* out, std::size_t count, DataType dtype, ReduceOp op,
                          DeviceStream stream) = 0;
  // `in` holds size() runs of `count` elements; rank r gets the reduction of the r-th runs.
  virtual void reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype,
                              ReduceOp op, DeviceStream stream) = 0;

  // Throws where a call that was put on a stream has failed since. Waits for nothing.
  virtual void check() = 0;
  // Ends calls under way, on this rank, so that streams go on; every later call throws `reason`.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace cohort::collective
