#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/data/fields.h"
#include "cohort/capi/cohort_c.h"

namespace cohort::capi {

// What a request may be: cohort_kind, and two of the library's own.
enum class Kind : std::uint8_t {
  all_reduce = COHORT_ALLREDUCE,
  all_gather = COHORT_ALLGATHER,
  broadcast = COHORT_BROADCAST,
  all_to_all = COHORT_ALLTOALL,
  reduce_scatter = COHORT_REDUCESCATTER,
  barrier = COHORT_BARRIER,
  join = COHORT_JOIN,
  shard_sum = COHORT_SHARD_SUM,
  add_set,
  remove_set,
};

std::string_view to_string(Kind kind);      // "allreduce"
std::string_view name_of_op(std::int32_t);  // "average"; cohort_op

struct TensorType {
  std::int32_t dtype = COHORT_F32;
  std::vector<std::int64_t> shape;

  bool operator==(const TensorType&) const = default;
  std::size_t elements() const;
  std::size_t bytes() const;
  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::size_t row_bytes() const;  // of one index of the first dimension
};

// What one rank asks for, without its memory: all that the others must know of it. A value.
struct Signature {
  Kind kind = Kind::all_reduce;
  std::string name;
  std::int32_t op = COHORT_SUM;
  std::int32_t root = 0;
  double prescale = 1, postscale = 1;
  std::vector<TensorType> tensors;
  std::vector<std::int64_t> splits;  // all_to_all: rows to each rank; empty: equal parts
  std::int32_t shards = 0;           // shard_sum
  std::vector<std::int32_t> ranks;   // add_set
  std::int32_t set = 0;              // remove_set

  bool operator==(const Signature&) const = default;
};
using SignatureRef = std::shared_ptr<const Signature>;

constexpr std::size_t kMaxName = 1 << 16;
constexpr std::size_t kMaxTensors = 1 << 20;
constexpr std::size_t kMaxDimensions = 1 << 10;
constexpr std::size_t kMaxRanks = 1 << 24;
constexpr std::int32_t kMaxShards = 1 << 20;

void fields(auto& io, MessageOf<TensorType> auto& m) {
  io(m.dtype);
  io.list(m.shape, kMaxDimensions);
}
void fields(auto& io, MessageOf<Signature> auto& m) {
  io.choice(m.kind, Kind::all_reduce, Kind::remove_set, "kind of request");
  io.text(m.name, kMaxName);
  io(m.op), io(m.root), io(m.prescale), io(m.postscale);
  io.list(m.tensors, kMaxTensors, 8, [](auto& inner, auto& tensor) { inner(tensor); });
  io.list(m.splits, kMaxRanks);
  io(m.shards);
  io.list(m.ranks, kMaxRanks);
  io(m.set);
}

// Requests of different ranks with the same key belong together; a rank has one of each at a time.
// Kinds with tensors share their names: two ranks that do different things under one name do not
// agree. A rank joins once, whatever the name.
std::string key_of(Kind kind, std::string_view name);

// "allreduce (average) of f32[2, 3]": for errors.
std::string describe(const Signature& signature);

// What is wrong with it by itself in a set of `size` ranks: throws InvalidInput.
void check_signature(const Signature& signature, int size);

// Empty when the ranks' requests go together; otherwise what differs, and each rank's side. Null:
// a rank that has joined, and so brings none.
std::string find_mismatch(const std::vector<SignatureRef>& ranks);

}  // namespace cohort::capi
