#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/work.h"
#include "cohort/parallel/sharding/partition.h"
#include "cohort/parallel/sharding/peer_reads.h"
#include "cohort/parallel/tensors/block_pool.h"

namespace cohort::parallel {

// Parameters of which each rank has its slices, and the whole only while it is used (ZeRO-3).
//
// A dropped parameter is the same tensor without memory. Before an operation of LibTorch that has
// it, or a view of it, among its inputs, in forward or in backward, its unit (the parameters of one
// module) gets memory, and its values are read from their owners; the unit that came after it the
// last time is asked for at once, so that it travels meanwhile; units that are neither are dropped.
// How: a callback of LibTorch's for every operation (at::RecordFunction), for the whole process and
// its whole life, and storages whose memory comes and goes. What reads a dropped parameter past
// LibTorch's operations (data_ptr()) gets LibTorch's error that it has no data: gather_all() first.
//
//   keep               the slices are those of the parameters, which are whole
//   begin              parameters come and go from here on ...
//   renew              ... and what was gathered is old: a step has ended, the slices have changed
//   gather_all         whole, until begin()
//
// Threads: confined to the replica's thread, on which the CPU's part of backward runs too.
// Ownership: keeps the parameters; `reads` must outlive it. The destructor leaves parameters as they
// are. Failure: where the values do not come, the reason is logged, and the operation ends with
// LibTorch's error that its parameter has no data; gather_all() throws what PeerReads throws.
class DroppedParameters {
 public:
  struct Member {
    torch::Tensor parameter;
    std::size_t index = 0;  // in the partition, and of the item that peers read
    std::size_t unit = 0;
    torch::Tensor own;  // this rank's slice, as one dimension, in memory of its own
  };

  DroppedParameters(std::vector<Member> members, const Partition& partition, PeerReads& reads,
                    std::int64_t kind, int rank, std::chrono::milliseconds timeout);
  ~DroppedParameters();
  DroppedParameters(const DroppedParameters&) = delete;
  DroppedParameters& operator=(const DroppedParameters&) = delete;

  // Whether a parameter could be dropped: it has its memory for itself.
  static bool can_drop(const torch::Tensor& parameter);

  void keep();
  void begin();
  void renew();
  void gather_all();
  std::size_t gathered_bytes() const;  // what is whole, or on its way

 private:
  struct Unit {
    std::vector<std::size_t> members;
    std::vector<std::unique_ptr<BlockPool::Block>> arriving;  // by member
    std::vector<collective::Work> reads;
    bool gathered = false;
  };
  friend struct ParameterTouches;

  // An operation is about to use these units. `outermost`: no other one is under way around it, so
  // that others may be dropped.
  void touch(std::span<const std::size_t> units, bool outermost);
  void follow(std::size_t unit);
  void request(Unit& unit);
  void finish(Unit& unit);
  void drop(Unit& unit);
  void set_memory(const Member& member, std::unique_ptr<BlockPool::Block> block);
  Deadline deadline() const { return Deadline::after(timeout_); }

  std::vector<Member> members_;
  const Partition& partition_;
  PeerReads& reads_;
  std::int64_t kind_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<BlockPool> memory_;
  std::vector<Unit> units_;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  bool whole_ = true;
  std::size_t before_ = kNone, current_ = kNone;                      // units used last
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> after_;  // (before, current): the next
};

}  // namespace cohort::parallel
