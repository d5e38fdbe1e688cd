#include "cohort/collective/arguments.h"

#include <cmath>
#include <numeric>

namespace cohort::collective {

namespace {

struct Extents {
  std::size_t in = 0;   // elements that the call reads
  std::size_t out = 0;  // and writes
};

Extents extents_of(const Call& call, int rank, int size) {
  const auto n = static_cast<std::size_t>(size);
  const auto sum = [](std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  const bool is_root = call.root == rank;
  switch (call.kind) {
    case CallKind::barrier:
      return {};
    case CallKind::all_reduce:
      return {call.count, call.count};
    case CallKind::reduce:
      return {call.count, is_root ? call.count : 0};
    case CallKind::broadcast:
      return {0, call.count};
    case CallKind::all_gather:
      return {call.count, call.count * n};
    case CallKind::all_gather_v:
      return {call.count, sum(call.receive_counts)};
    case CallKind::reduce_scatter:
      return {call.count * n, call.count};
    case CallKind::all_to_all:
      return {call.count * n, call.count * n};
    case CallKind::all_to_all_v:
      return {sum(call.send_counts), sum(call.receive_counts)};
    case CallKind::gather:
      return {call.count, is_root ? call.count * n : 0};
    case CallKind::scatter:
      return {is_root ? call.count * n : 0, call.count};
  }
  return {};
}

[[noreturn]] void refuse(const Call& call, const std::string& why, const std::string& advice) {
  throw InvalidInput(why, {.during = describe(call), .advice = advice});
}

}  // namespace

void check_arguments(const Call& call, int rank, int size) {
  const std::size_t element = size_of(call.dtype);
  if (call.root < 0 || call.root >= size)
    refuse(call, fmt::format("root {} is not a rank of this group", call.root),
           fmt::format("Give a root from 0 to {}.", size - 1));
  const bool needs_receive =
      call.kind == CallKind::all_gather_v || call.kind == CallKind::all_to_all_v;
  if (needs_receive && call.receive_counts.size() != static_cast<std::size_t>(size))
    refuse(call, fmt::format("{} counts for {} ranks", call.receive_counts.size(), size),
           "Give one count for each rank.");
  if (call.kind == CallKind::all_to_all_v &&
      call.send_counts.size() != static_cast<std::size_t>(size))
    refuse(call, fmt::format("{} send counts for {} ranks", call.send_counts.size(), size),
           "Give one count for each rank.");
  const bool reduces = call.kind == CallKind::all_reduce || call.kind == CallKind::reduce ||
                       call.kind == CallKind::reduce_scatter;
  if (reduces && call.dtype == DataType::boolean && call.op == ReduceOp::average)
    refuse(call, "booleans have no average", "Convert them to f32, or use sum (\"or\").");
  if (reduces && (!std::isfinite(call.pre_scale) || !std::isfinite(call.post_scale)))
    refuse(call,
           fmt::format("scales {} and {} are not both finite", call.pre_scale, call.post_scale),
           "Give finite scales.");
  const Extents extents = extents_of(call, rank, size);
  if (extents.in > 0 && call.in == nullptr)
    refuse(call, "the input is a null pointer", "Give memory for every element.");
  if (extents.out > 0 && call.out == nullptr)
    refuse(call, "the output is a null pointer", "Give memory for every element.");
  if ((call.kind == CallKind::all_reduce || call.kind == CallKind::reduce) && call.in != call.out &&
      extents.out > 0) {
    const auto* in = static_cast<const std::byte*>(call.in);
    const auto* out = static_cast<const std::byte*>(call.out);
    if (in < out + extents.out * element && out < in + extents.in * element)
      refuse(call, "input and output overlap without being the same",
             "Use one buffer, or two that do not overlap.");
  }
}

void check_peer(int peer, int rank, int size) {
  if (peer < 0 || peer >= size)
    throw InvalidInput(fmt::format("rank {} is not in this group of {}", peer, size));
  if (peer == rank)
    throw InvalidInput(fmt::format("rank {} cannot send a message to itself", rank),
                       {.advice = "Copy the data instead."});
}

}  // namespace cohort::collective
