#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"

// Collectives on the memory of GPUs through NCCL, which is found when the program runs
// (libnccl.so.2: the one that LibTorch has loaded, else the one that the loader finds): one binary
// works with and without it, and is built without its headers.
namespace cohort::collective::nccl {

// Of the library; empty where there is none, and `why` says what was looked for and failed.
std::string version(std::string* why = nullptr);
// Whether several ranks may share a GPU: 2.30 or newer with NCCL_MULTI_RANK_GPU_ENABLE=1.
bool may_share_gpu();

// What a rank brings to a communicator.
struct Participant {
  std::array<std::byte, 16> device = {};  // its GPU: CudaDriver::current_device()
  // Why this rank cannot take part, for example for want of a GPU; empty: it can. form() then throws
  // it on all ranks, where a rank that stayed away would make the others wait.
  std::string problem;
};

// A communicator of the ranks of `group`, each on the current CUDA device of its thread. Collective.
// `group` must outlive it. `timeout`: how long a call waits for its peers to have made it.
// Throws, alike on all ranks and with the rank's number: InvalidInput where a rank has no NCCL or
// cannot take part, versions differ, a GPU has several ranks and NCCL does not allow that, or
// NCCL_COMM_BLOCKING is set, which takes away every deadline; Error with NCCL's own words where it
// fails; TimeoutError at the deadline, or a few seconds later where ranks differ in what became of
// them. What the group throws passes through; where it breaks, forming ends at once.
//
// Beyond what a DeviceGroup says:
// - In place: broadcast; all_reduce; all_gather_v with `in` its own place in `out` or nullptr;
//   reduce_scatter with `out` its own place in `in`. Anything else that overlaps is InvalidInput.
// - Booleans are bytes of 0 and 1. The average of i8 and u8 is InvalidInput.
// - minimum and maximum may lose a NaN.
// - check() and abort() may be called by any thread, also while another one is in a call, which then
//   throws. abort() returns at once; a thread of the group's ends NCCL's work. So memory must stay
//   until the stream is past a call also where the call threw or the group was aborted.
// - What breaks `group` among the ranks of this host aborts this group: a thread of it asks 20 times
//   a second (FailureWatch), and asks NCCL, too, while no call is being made. Of a peer on another
//   host the group learns by the host's next call; of one that is only late neither knows. Until
//   then, or NCCL itself notices, a stream waits for it.
// - The destructor aborts, and waits for no peer. Destroy a group after all ranks' streams are past
//   its last call: a peer that is behind may otherwise wait for bytes that do not come. CUDA graphs
//   that hold its calls must be destroyed before it: NCCL frees nothing as long as they live, and
//   the destructor waits for that.
std::unique_ptr<DeviceGroup> form(Group& group, const Participant& self, Deadline deadline,
                                  std::chrono::milliseconds timeout = std::chrono::minutes(5));

}  // namespace cohort::collective::nccl
