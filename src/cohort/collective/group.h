#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/backend/call.h"
#include "cohort/collective/reduction/types.h"
#include "cohort/collective/work.h"

namespace cohort::collective {

class Backend;
class DeviceGroup;

struct CallOptions {
  std::optional<Deadline> deadline = {};  // default: the group's timeout from the call on
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  double pre_scale = 1;   // every contribution is multiplied by it, in the accumulation type
  double post_scale = 1;  // the result, before average divides
  std::optional<Deadline> deadline = {};
};

// Memory that the group's other ranks on this host can reach: collectives on it copy nothing.
// Movable; gives the memory back when destroyed, and keeps its group's memory alive as long.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Backend> backend, std::byte* memory, std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_), bytes_ / sizeof(T)};
  }

 private:
  void reset();
  std::shared_ptr<Backend> backend_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// One rank's membership in a set of ranks that call collectives together, in the same order and
// with matching arguments.
//
// Counts are elements. Where `in == out` a call works in place; otherwise the two must not overlap.
// In-place all_gather, all_gather_v and gather at the root: `in` is this rank's own place in `out`
// (or nullptr, which means that); reduce_scatter: `out` is this rank's own place in `in`, or `in`
// itself. all_to_all and scatter take `in == out` too. Group-allocated memory (allocate()) is
// reduced in place without a copy; all other memory works and is staged.
// A group of one rank copies in to out and is done.
//
// The result of a reduction has the same bits whatever the transport, the algorithm, the split of
// the message or the hosts on which the ranks run (docs/algorithms.md).
//
// Threads: thread-safe, but the order of collective calls is the program's business: ranks that
// call from several threads must agree on it. Asynchronous calls run in the order in which they
// were made, on a thread of the group's; memory given to them must stay until their Work is done.
// send and recv run beside collectives; messages between two ranks arrive in the order sent.
//
// Failure: every call throws at the latest at its deadline.
//   MismatchError  the ranks' calls differ: on every rank, with both sides' descriptions
//   PeerError      a peer died, left the group, or another rank reported it; names peer, host, call
//   TimeoutError   the deadline passed; names the peer that was missing
//   InvalidInput   arguments that are wrong by themselves; nothing was sent, the group is intact
// After any of the first three the group is broken: calls under way on other ranks fail too, and
// every later call throws the first error again, at once. Destroying a group does not
// throw; peers that still call it get a PeerError that says that this rank left. It joins the
// group's threads: with asynchronous calls under way it breaks the group first, so that they end at
// once instead of at their deadlines.
class Group {
 public:
  // How to build one: see form.h. `timeout` is the default deadline of every call.
  Group(std::shared_ptr<Backend> backend, std::chrono::milliseconds timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;
  int size() const;
  std::string backend_name() const;

  void barrier(CallOptions options = {});

  void all_reduce(const void* in, void* out, std::size_t count, DataType dtype,
                  ReduceOptions options = {});
  void reduce(const void* in, void* out, std::size_t count, DataType dtype, int root,
              ReduceOptions options = {});  // `out` matters at the root only
  void broadcast(void* data, std::size_t count, DataType dtype, int root, CallOptions options = {});
  void all_gather(const void* in, void* out, std::size_t count, DataType dtype,
                  CallOptions options = {});
  // Rank r gives counts[r] elements; `counts` is the same on all ranks; `out` is packed.
  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType dtype,
                    CallOptions options = {});
  // `in` holds size() runs of `count` elements; rank r gets the reduction of the r-th runs.
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype,
                      ReduceOptions options = {});
  void all_to_all(const void* in, void* out, std::size_t count, DataType dtype,
                  CallOptions options = {});
  void all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                    std::span<const std::size_t> receive_counts, DataType dtype,
                    CallOptions options = {});
  void gather(const void* in, void* out, std::size_t count, DataType dtype, int root,
              CallOptions options = {});
  void scatter(const void* in, void* out, std::size_t count, DataType dtype, int root,
               CallOptions options = {});

  void send(const void* data, std::size_t count, DataType dtype, int peer,
            CallOptions options = {});
  void recv(void* data, std::size_t count, DataType dtype, int peer, CallOptions options = {});

  // The same, without waiting. The deadline counts from the call.
  Work async(Call call, CallOptions options = {});  // any collective; see Call for its fields
  // Several calls as one: `job` runs on the group's thread in its place among the asynchronous
  // calls, and the blocking collectives that it makes run there and then. It must not wait for
  // other asynchronous calls of this group. What it throws, the Work throws.
  Work run_async(std::function<void(Group& group)> job);
  Work all_reduce_async(const void* in, void* out, std::size_t count, DataType dtype,
                        ReduceOptions options = {});
  Work send_async(const void* data, std::size_t count, DataType dtype, int peer,
                  CallOptions options = {});
  Work recv_async(void* data, std::size_t count, DataType dtype, int peer,
                  CallOptions options = {});

  template <typename T>
  void all_reduce(std::span<T> data, ReduceOptions options = {}) {
    all_reduce(data.data(), data.data(), data.size(), DataTypeOf<T>::value, options);
  }
  template <typename T>
  void broadcast(std::span<T> data, int root, CallOptions options = {}) {
    broadcast(data.data(), data.size(), DataTypeOf<T>::value, root, options);
  }

  Buffer allocate(std::size_t bytes);

  // The group of these ranks of this one, renumbered in ascending order. Called by its members
  // only; others go on. Sub-groups of the same ranks made one after another are distinct.
  std::unique_ptr<Group> subgroup(std::span<const int> ranks, CallOptions options = {});
  // Collective over this group: ranks with the same colour form a group, in rank order; a negative
  // colour gets none.
  std::unique_ptr<Group> split(int color, CallOptions options = {});

  // The same ranks on their GPUs, where the group was given that: what breaks the group ends its
  // calls too. nullptr: what is on GPUs goes through the host's memory. Not of sub-groups.
  void use_device(std::unique_ptr<DeviceGroup> device);
  DeviceGroup* device() const;

  // What has broken the group, as far as this rank knows without a call; nothing while it works.
  // Waits for nothing: for threads that watch. Of ranks on other hosts it may learn only by a call.
  std::optional<std::string> failure() const;

  // Breaks the group on every rank, on purpose.
  void abort(const std::string& reason) noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cohort::collective
