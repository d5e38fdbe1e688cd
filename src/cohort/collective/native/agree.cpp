#include "cohort/collective/native/agree.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cohort::collective {

namespace {

bool counts_differ_by_rank(CallKind kind) {
  return kind == CallKind::all_gather_v || kind == CallKind::all_to_all_v;
}

std::uint64_t hash_of(std::span<const std::size_t> counts) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::size_t count : counts) hash = (hash ^ count) * 0x100000001b3u;
  return hash;
}

CallRecord make_record(const LocalChannel& channel, const Call& call, const Exposure& exposure) {
  CallRecord record{.kind = call.kind,
                    .dtype = call.dtype,
                    .op = call.op,
                    .root = call.root,
                    .count = call.count,
                    .pre_scale = call.pre_scale,
                    .post_scale = call.post_scale,
                    .call_sequence = call.sequence,
                    .counts_hash = 0,
                    .in_bytes = exposure.in_bytes,
                    .out_bytes = exposure.out_bytes,
                    .in = {},
                    .out = {}};
  if (call.kind == CallKind::all_gather_v) record.counts_hash = hash_of(call.receive_counts);
  const transport::Arena& arena = channel.domain().arena();
  if (exposure.in_bytes > 0) record.in = arena.locate(exposure.in, exposure.in_bytes);
  if (exposure.out_bytes > 0) record.out = arena.locate(exposure.out, exposure.out_bytes);
  return record;
}

std::string differing_records(const LocalChannel& channel, std::uint64_t sequence) {
  const CallRecord& own = channel.slot(channel.index(), sequence).record;
  for (int i = 0; i < channel.size(); ++i) {
    const CallRecord& other = channel.slot(i, sequence).record;
    if (same_call(own, other)) continue;
    return fmt::format("the ranks' calls differ: {} called {}, {} called {}",
                       channel.peer(channel.index()).name(), describe(own), channel.peer(i).name(),
                       describe(other));
  }
  return {};
}

// counts(i) holds what member i sends to each, then what it expects from each. All members look at
// all pairs, so that all of them see the same thing.
std::string differing_counts(const LocalChannel& channel, const Call& call,
                             std::uint64_t sequence) {
  const int n = channel.size();
  for (int from = 0; from < n; ++from) {
    const std::uint64_t* given = channel.counts(from, sequence);
    const std::uint64_t given_to_all = channel.slot(from, sequence).record.count;
    for (int to = 0; to < n; ++to) {
      const std::uint64_t sent = call.kind == CallKind::all_gather_v ? given_to_all : given[to];
      const std::uint64_t expected = channel.counts(to, sequence)[n + from];
      if (sent != expected)
        return describe_counts(call, channel.peer(from), sent, channel.peer(to), expected);
    }
  }
  return {};
}

void write_counts(const LocalChannel& channel, const Call& call, std::uint64_t sequence) {
  std::uint64_t* counts = channel.counts(channel.index(), sequence);
  std::copy(call.send_counts.begin(), call.send_counts.end(), counts);
  std::copy(call.receive_counts.begin(), call.receive_counts.end(), counts + channel.size());
}

Mode choose_mode(const LocalChannel& channel, std::uint64_t sequence, std::size_t inline_bytes) {
  std::size_t most = 0;
  bool reachable = true;
  for (int i = 0; i < channel.size(); ++i) {
    const CallRecord& record = channel.slot(i, sequence).record;
    most = std::max<std::size_t>(most, record.in_bytes);
    if (record.in_bytes > 0 && !record.in.reachable()) reachable = false;
    if (record.out_bytes > 0 && !record.out.reachable()) reachable = false;
  }
  if (most <= (reachable ? inline_bytes : LocalChannel::kInlineBytes)) return Mode::inlined;
  return reachable ? Mode::direct : Mode::staged;
}

}  // namespace

std::string describe(const CallRecord& record) {
  Call call;
  call.kind = record.kind;
  call.dtype = record.dtype;
  call.op = record.op;
  call.root = record.root;
  call.count = record.count;
  call.pre_scale = record.pre_scale;
  call.post_scale = record.post_scale;
  call.sequence = record.call_sequence;
  return describe(call);
}

std::string describe_counts(const Call& call, const Peer& from, std::uint64_t sent, const Peer& to,
                            std::uint64_t expected) {
  return fmt::format("the ranks' counts differ in {} #{}: {} sends {} x {} to {}, which expects {}",
                     to_string(call.kind), call.sequence, from.name(), sent, to_string(call.dtype),
                     to.name(), expected);
}

bool same_call(const CallRecord& a, const CallRecord& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         (a.count == b.count || counts_differ_by_rank(a.kind)) && a.pre_scale == b.pre_scale &&
         a.post_scale == b.post_scale &&
         (a.counts_hash == b.counts_hash || a.kind != CallKind::all_gather_v);
}

Exposure exposure_of(const Call& call, int member, int members) {
  const std::size_t run = call.count * size_of(call.dtype);
  const std::size_t all_runs = run * static_cast<std::size_t>(members);
  const bool is_root = call.root == member;
  switch (call.kind) {
    case CallKind::barrier:
      return {};
    case CallKind::broadcast:
      return {call.in, is_root ? run : 0};
    case CallKind::scatter:
      return {call.in, is_root ? all_runs : 0};
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return {call.in, all_runs};
    case CallKind::all_reduce:
      return {call.in, run, call.out, run};
    case CallKind::reduce:
      return {call.in, run, call.out, is_root ? run : 0};
    case CallKind::all_gather:
    case CallKind::all_gather_v:
    case CallKind::all_to_all_v:  // count is the sum over the peers
    case CallKind::gather:
      return {call.in, run};
  }
  return {};
}

Agreement agree(LocalChannel& channel, const Call& call, const Exposure& exposure,
                bool compare_counts, Deadline deadline) {
  Agreement result;
  result.sequence = channel.begin(call);
  LocalChannel::Slot& own = channel.slot(channel.index(), result.sequence);
  own.record = make_record(channel, call, exposure);
  if (exposure.in_bytes > 0 && exposure.in_bytes <= LocalChannel::kInlineBytes)
    std::memcpy(own.inline_data, exposure.in, exposure.in_bytes);
  compare_counts = compare_counts && counts_differ_by_rank(call.kind);
  if (compare_counts) write_counts(channel, call, result.sequence);
  channel.publish(result.sequence);
  channel.await_all_published(result.sequence, deadline);

  result.mismatch = differing_records(channel, result.sequence);
  if (result.mismatch.empty() && compare_counts)
    result.mismatch = differing_counts(channel, call, result.sequence);
  if (result.mismatch.empty())
    result.mode = choose_mode(channel, result.sequence, exposure.inline_bytes);
  return result;
}

}  // namespace cohort::collective
