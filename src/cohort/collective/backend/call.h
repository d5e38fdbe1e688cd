#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/types.h"

namespace cohort::collective {

enum class CallKind : std::uint8_t {
  barrier,
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  all_gather_v,
  reduce_scatter,
  all_to_all,
  all_to_all_v,
  gather,
  scatter,
};

std::string_view to_string(CallKind kind);

// One collective call of one rank, as a backend executes it. Arguments are checked already.
struct Call {
  CallKind kind = CallKind::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  double pre_scale = 1;
  double post_scale = 1;
  int root = 0;
  // all_reduce, reduce, broadcast: elements of the whole buffer. all_gather(_v), gather: that each
  // rank gives. reduce_scatter, scatter: that each rank gets. all_to_all: for each pair.
  std::size_t count = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const std::size_t> send_counts;     // all_to_all_v: to each rank
  std::span<const std::size_t> receive_counts;  // all_to_all_v, all_gather_v: from each rank
  std::uint64_t sequence = 0;                   // of this call among the group's, from 1
};

// "all_reduce #17 of 100 x f32, sum": for errors.
std::string describe(const Call& call);

// The ranks of a group made different calls at the same point of their programs. Every rank gets
// one that says what it called and what a peer called.
class MismatchError : public Error {
  using Error::Error;
};

}  // namespace cohort::collective
