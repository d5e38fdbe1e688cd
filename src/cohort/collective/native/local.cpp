#include "cohort/collective/native/local.h"

#include <numeric>

#include "cohort/collective/native/all_reduce.h"
#include "cohort/collective/native/exchange.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/collective/reduction/reduce_tree.h"

namespace cohort::collective {

namespace {

void copy(std::byte* to, const Chunk& chunk) {
  if (chunk.bytes > 0 && to != chunk.data) copy_bytes(to, chunk.data, chunk.bytes);
}

// Where in a packed output each member's run starts, in bytes.
std::vector<std::size_t> packed_offsets(std::span<const std::size_t> counts, std::size_t bytes) {
  std::vector<std::size_t> offsets;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    offsets.push_back(at);
    at += count * bytes;
  }
  return offsets;
}

// Reads every member's chunk into offsets[member] of `out`.
Consume collect_into(std::byte* out, std::vector<std::size_t> offsets) {
  return [out, offsets = std::move(offsets)](std::size_t at, std::span<const Chunk> chunks) {
    for (std::size_t i = 0; i < chunks.size(); ++i) copy(out + offsets[i] + at, chunks[i]);
  };
}

void ignore(std::size_t, std::span<const Chunk>) {}

}  // namespace

void local_execute(LocalChannel& channel, const Agreement& agreement, const Call& call,
                   Deadline deadline) {
  const int self = channel.index();
  const auto n = static_cast<std::size_t>(channel.size());
  const std::size_t bytes = size_of(call.dtype);
  const std::size_t run = call.count * bytes;
  const auto* in = static_cast<const std::byte*>(call.in);
  auto* out = static_cast<std::byte*>(call.out);
  const auto record = [&](int member) -> const CallRecord& {
    return channel.slot(member, agreement.sequence).record;
  };
  const auto whole_input = [&](int source, int) -> Extent { return {0, record(source).in_bytes}; };
  const auto equal_pieces = [&](int source, int piece) -> Extent {
    if (whole_input(source, 0).bytes == 0) return {};
    return {run * static_cast<std::size_t>(piece), run};
  };
  const auto move = [&](const ExchangePlan& plan, const Consume& consume) {
    exchange(channel, agreement, in, plan, consume, deadline);
  };

  switch (call.kind) {
    case CallKind::barrier:
      return;
    case CallKind::all_reduce:
    case CallKind::reduce:
      return local_all_reduce(channel, agreement, call, deadline);
    case CallKind::broadcast:
      return move({1, whole_input}, [&](std::size_t at, std::span<const Chunk> chunks) {
        copy(out + at, chunks[call.root]);
      });
    case CallKind::all_gather:
      return move({1, whole_input},
                  collect_into(out, packed_offsets(std::vector(n, call.count), bytes)));
    case CallKind::all_gather_v:
      return move({1, whole_input}, collect_into(out, packed_offsets(call.receive_counts, bytes)));
    case CallKind::gather:
      if (call.root != self) return move({1, whole_input}, ignore);
      return move({1, whole_input},
                  collect_into(out, packed_offsets(std::vector(n, call.count), bytes)));
    case CallKind::scatter:
      return move({channel.size(), equal_pieces},
                  [&](std::size_t at, std::span<const Chunk> chunks) {
                    copy(out + at, chunks[call.root]);
                  });
    case CallKind::all_to_all:
      return move({channel.size(), equal_pieces},
                  collect_into(out, packed_offsets(std::vector(n, call.count), bytes)));
    case CallKind::all_to_all_v: {
      const auto piece_of = [&](int source, int piece) -> Extent {
        const std::uint64_t* counts = channel.counts(source, agreement.sequence);
        const std::uint64_t before = std::accumulate(counts, counts + piece, std::uint64_t{0});
        return {before * bytes, counts[piece] * bytes};
      };
      return move({channel.size(), piece_of},
                  collect_into(out, packed_offsets(call.receive_counts, bytes)));
    }
    case CallKind::reduce_scatter: {
      const TreeReducer reducer(
          Reduction{call.dtype, call.op, channel.size(), call.pre_scale, call.post_scale});
      std::vector<const std::byte*> inputs(n);
      return move({channel.size(), equal_pieces},
                  [&](std::size_t at, std::span<const Chunk> chunks) {
                    for (std::size_t i = 0; i < n; ++i) inputs[i] = chunks[i].data;
                    std::byte* to = out + at;
                    reducer.run(inputs, {&to, 1}, chunks[0].bytes / bytes);
                  });
    }
  }
}

}  // namespace cohort::collective
