#include "cohort/collective/native/exchange.h"

#include <algorithm>
#include <vector>

#include "cohort/collective/native/turns.h"
#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective {

namespace {

// A pipeline of two stages: each member copies a window of each piece into its staging buffer, and
// reads the others' kTurnsAhead turns later.
static_assert(LocalChannel::kStagingBuffers >= 2 * kTurnsAhead);

class Staged {
 public:
  Staged(LocalChannel& channel, const std::byte* in, const ExchangePlan& plan, Deadline deadline)
      : channel_(channel),
        in_(in),
        plan_(plan),
        deadline_(deadline),
        lane_(LocalChannel::kStagingBytes / static_cast<std::size_t>(plan.pieces) / 64 * 64),
        chunks_(static_cast<std::size_t>(channel.size())) {}

  void run(const Consume& consume) {
    const std::uint64_t first = channel_.first_window(), windows = count_windows();
    if (windows == 0) return;
    take_turns(channel_, windows, 2, deadline_, [&](std::uint64_t turn, bool past_caches) {
      if (turn >= kTurnsAhead) read(first, turn - kTurnsAhead, consume);
      if (turn < windows) stage(first, turn, past_caches);
    });
  }

 private:
  std::uint64_t count_windows() const {
    std::size_t longest = 0;
    for (int source = 0; source < channel_.size(); ++source)
      for (int piece = 0; piece < plan_.pieces; ++piece)
        longest = std::max(longest, plan_.extent(source, piece).bytes);
    return (longest + lane_ - 1) / lane_;
  }

  // The part of a piece that falls into window k.
  Extent part(int source, int piece, std::uint64_t k) const {
    const Extent whole = plan_.extent(source, piece);
    const std::size_t from = k * lane_;
    if (from >= whole.bytes) return {whole.offset, 0};
    return {whole.offset + from, std::min(lane_, whole.bytes - from)};
  }

  void stage(std::uint64_t first, std::uint64_t k, bool past_caches) {
    std::byte* buffer = channel_.staging(channel_.index(), first + k);
    for (int piece = 0; piece < plan_.pieces; ++piece) {
      if (plan_.pieces > 1 && piece == channel_.index()) continue;
      const Extent extent = part(channel_.index(), piece, k);
      if (extent.bytes > 0)
        (past_caches ? copy_around_cache : copy_bytes)(
            buffer + lane_ * static_cast<std::size_t>(piece), in_ + extent.offset, extent.bytes);
    }
  }

  void read(std::uint64_t first, std::uint64_t k, const Consume& consume) {
    const int piece = plan_.pieces > 1 ? channel_.index() : 0;
    for (int source = 0; source < channel_.size(); ++source) {
      const Extent extent = part(source, piece, k);
      const std::byte* data =
          source == channel_.index()
              ? in_ + extent.offset
              : channel_.staging(source, first + k) + lane_ * static_cast<std::size_t>(piece);
      chunks_[source] = {data, extent.bytes};
    }
    consume(k * lane_, chunks_);
  }

  LocalChannel& channel_;
  const std::byte* in_;
  const ExchangePlan& plan_;
  Deadline deadline_;
  std::size_t lane_;  // bytes of a piece in one window
  std::vector<Chunk> chunks_;
};

}  // namespace

void exchange(LocalChannel& channel, const Agreement& agreement, const std::byte* in,
              const ExchangePlan& plan, const Consume& consume, Deadline deadline) {
  if (agreement.mode == Mode::staged && channel.size() > 1) {
    Staged(channel, in, plan, deadline).run(consume);
    return;
  }
  const int piece = plan.pieces > 1 ? channel.index() : 0;
  std::vector<Chunk> chunks(static_cast<std::size_t>(channel.size()));
  for (int source = 0; source < channel.size(); ++source) {
    const Extent extent = plan.extent(source, piece);
    if (extent.bytes == 0) continue;
    const LocalChannel::Slot& slot = channel.slot(source, agreement.sequence);
    const std::byte* base = source == channel.index() ? in
                            : agreement.mode == Mode::inlined
                                ? slot.inline_data
                                : channel.domain().arena().resolve(slot.record.in);
    chunks[source] = {base + extent.offset, extent.bytes};
  }
  consume(0, chunks);
  if (agreement.mode == Mode::inlined) return;
  meet(channel, deadline);
}

}  // namespace cohort::collective
