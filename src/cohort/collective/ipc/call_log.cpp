#include "cohort/collective/ipc/call_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::collective::ipc {

namespace {

// An entry: the call's number (0 while it is written), kind, type, operation and root as one number,
// the count, what the rank sends to each peer, what it expects from each.
constexpr std::size_t kNumber = 0;
constexpr std::size_t kWhat = 1;
constexpr std::size_t kCount = 2;
constexpr std::size_t kSends = 3;

std::uint64_t packed(const Call& call) {
  return static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.dtype) << 8 |
         static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.root) << 32;
}

}  // namespace

CallLog::CallLog(std::shared_ptr<SharedBlock> block, int rank, int size)
    : block_(std::move(block)),
      rank_(rank),
      size_(size),
      compared_(static_cast<std::size_t>(size), 0) {}

void CallLog::add(Call& call) {
  call.sequence = ++calls_;
  std::atomic<std::uint64_t>* entry = block_->log_entry(rank_, calls_);
  const auto n = static_cast<std::size_t>(size_);
  entry[kNumber] = 0;
  entry[kWhat] = packed(call);
  entry[kCount] = call.kind == CallKind::all_gather_v ? 0 : call.count;
  for (std::size_t peer = 0; peer < n; ++peer) {
    entry[kSends + peer] = peer < call.send_counts.size() ? call.send_counts[peer] : 0;
    entry[kSends + n + peer] = peer < call.receive_counts.size() ? call.receive_counts[peer] : 0;
  }
  entry[kNumber] = calls_;
  block_->state(rank_).calls = calls_;
}

std::optional<Failure> CallLog::difference() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    std::uint64_t& compared = compared_[static_cast<std::size_t>(peer)];
    const std::uint64_t both = std::min(calls_, block_->state(peer).calls.load());
    // Older ones are written over.
    if (calls_ > SharedBlock::kLoggedCalls)
      compared = std::max(compared, calls_ - SharedBlock::kLoggedCalls);
    while (compared < both)
      if (auto failure = compare(++compared, peer)) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> CallLog::compare(std::uint64_t call, int peer) const {
  const std::atomic<std::uint64_t>* own = block_->log_entry(rank_, call);
  const std::atomic<std::uint64_t>* other = block_->log_entry(peer, call);
  const auto n = static_cast<std::size_t>(size_);
  const auto kind = static_cast<CallKind>(own[kWhat] & 0xff);
  bool same = own[kWhat] == other[kWhat] && own[kCount] == other[kCount];
  std::string counts;
  if (same && kind == CallKind::all_to_all_v) {
    const std::uint64_t sent = own[kSends + static_cast<std::size_t>(peer)];
    const std::uint64_t expected = other[kSends + n + static_cast<std::size_t>(rank_)];
    const std::uint64_t arrives = other[kSends + static_cast<std::size_t>(rank_)];
    const std::uint64_t wanted = own[kSends + n + static_cast<std::size_t>(peer)];
    same = sent == expected && arrives == wanted;
    counts = fmt::format(
        ": rank {} sends {} to rank {}, which expects {}; rank {} sends {} to rank {}, which "
        "expects {}",
        rank_, sent, peer, expected, peer, arrives, rank_, wanted);
  } else if (same && kind == CallKind::all_gather_v) {
    for (std::size_t r = 0; r < n && same; ++r) {
      same = own[kSends + n + r] == other[kSends + n + r];
      counts = fmt::format(": rank {} says that rank {} gives {}, rank {} that it gives {}", rank_,
                           r, own[kSends + n + r].load(), peer, other[kSends + n + r].load());
    }
  }
  if (same) return std::nullopt;
  const std::string theirs = describe(call_of(peer, call));
  if (other[kNumber] != call) return std::nullopt;  // written over while it was read
  const std::string ours = describe(call_of(rank_, call));
  return Failure{.kind = FailureKind::mismatch,
                 .culprit = peer,
                 .text = counts.empty()
                             ? fmt::format("calls on GPUs differ: rank {} called {}, "
                                           "rank {} called {}",
                                           rank_, ours, peer, theirs)
                             : fmt::format("counts of {} on GPUs differ{}", ours, counts),
                 .during = ours};
}

Call CallLog::call_of(int rank, std::uint64_t call) const {
  const std::atomic<std::uint64_t>* entry = block_->log_entry(rank, call);
  const std::uint64_t what = entry[kWhat];
  return {.kind = static_cast<CallKind>(what & 0xff),
          .dtype = static_cast<DataType>(what >> 8 & 0xff),
          .op = static_cast<ReduceOp>(what >> 16 & 0xff),
          .root = static_cast<int>(what >> 32),
          .count = entry[kCount],
          .send_counts = {},
          .receive_counts = {},
          .sequence = call};
}

}  // namespace cohort::collective::ipc
