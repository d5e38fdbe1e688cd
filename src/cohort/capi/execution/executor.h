#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cohort/capi/execution/request.h"
#include "cohort/capi/negotiation/negotiator.h"
#include "cohort/collective/group.h"
#include "cohort/collective/shard_reducer.h"

namespace cohort::capi {

struct ExecutorOptions {
  std::size_t fusion_bytes = std::size_t{64} << 20;  // 0: none
  // Of add_set and remove_set; empty: they are refused. May throw InvalidInput, the same on all
  // ranks, which fails the request only.
  std::function<void(const Signature& signature, Request& request)> change_sets;
};

// A unit, and this rank's part in it; null where this rank has joined.
struct Task {
  Unit unit;
  RequestRef request;
};

// Carries out units over a group. Every rank of the group runs the same units in the same order:
// which collectives are made of them follows from their signatures alone.
//
// Allreduces of tensors up to kFused bytes that follow each other with the same type, operation and
// scales are copied together and reduced in one call; larger ones are reduced where they lie.
//
// Threads: confined to one at a time. `group` must outlive it.
// Failure: run() throws what the group throws, after which the group is broken.
class Executor {
 public:
  static constexpr std::size_t kFused = std::size_t{1} << 20;

  Executor(collective::Group& group, ExecutorOptions options);

  // `finished` is called once for each task, in order, as soon as its results (or its failure) are
  // in place.
  void run(std::span<Task> tasks, const std::function<void(Task&)>& finished);

 private:
  struct Piece {  // a tensor of an allreduce
    const TensorType* type;
    const std::byte* in;
    std::byte* out;
  };

  void run_one(Task& task);
  std::size_t fuse(std::span<Task> tasks, const std::function<void(Task&)>& finished);
  void all_reduce(const Signature& signature, std::span<const Piece> pieces);
  std::vector<Piece> pieces_of(const Task& task);
  void adasum(Task& task);
  void all_gather(Task& task);
  void broadcast(Task& task);
  void all_to_all(Task& task);
  void reduce_scatter(Task& task);
  void shard_sum(Task& task);
  std::byte* scratch(std::size_t bytes);

  collective::Group& group_;
  ExecutorOptions options_;
  collective::Buffer buffer_;     // of fused tensors, and for staging
  std::vector<std::byte> zeros_;  // stands in for tensors of a rank that has joined
  std::map<int, std::unique_ptr<collective::ShardReducer>> shard_reducers_;  // by shards
};

}  // namespace cohort::capi
