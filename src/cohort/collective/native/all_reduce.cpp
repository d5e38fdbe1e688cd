#include "cohort/collective/native/all_reduce.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cohort/collective/native/turns.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/collective/reduction/reduce_tree.h"
#include "cohort/collective/reduction/slices.h"

namespace cohort::collective {

namespace {

// Reduced at a time into the output, and from there, while it is in the first-level cache, copied
// into staging.
constexpr std::size_t kAddBlockBytes = 8 << 10;

bool receives(const Call& call, int member) {
  return call.kind == CallKind::all_reduce || call.root == member;
}

Reduction reduction_of(const Call& call, int members) {
  return {call.dtype, call.op, members, call.pre_scale, call.post_scale};
}

const std::byte* input_of(const Call& call) { return static_cast<const std::byte*>(call.in); }
std::byte* output_of(const Call& call) { return static_cast<std::byte*>(call.out); }

// Every member reduces everything for itself from the slots: one wait in all.
void reduce_inlined(LocalChannel& channel, const Agreement& agreement, const Call& call) {
  if (!receives(call, channel.index())) return;
  const TreeReducer reducer(reduction_of(call, channel.size()));
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(channel.size()));
  for (int i = 0; i < channel.size(); ++i)
    inputs[i] = channel.slot(i, agreement.sequence).inline_data;
  std::byte* output = output_of(call);
  reducer.run(inputs, {&output, 1}, call.count);
}

// Each member reduces its slice out of every member's input into every member's output.
void reduce_direct(LocalChannel& channel, const Agreement& agreement, const Call& call,
                   Deadline deadline) {
  const std::size_t bytes = size_of(call.dtype);
  const Range slice = slice_of(call.count, bytes, channel.index(), channel.size());
  const transport::Arena& arena = channel.domain().arena();
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (int i = 0; i < channel.size(); ++i) {
    const CallRecord& record = channel.slot(i, agreement.sequence).record;
    inputs.push_back(arena.resolve(record.in) + slice.from * bytes);
    if (receives(call, i)) outputs.push_back(arena.resolve(record.out) + slice.from * bytes);
  }
  TreeReducer(reduction_of(call, channel.size())).run(inputs, outputs, slice.count);
  meet(channel, deadline);
}

// A pipeline of three stages. For window k each member
//   stages   copies the others' slices of its input into its staging buffer, in turn k;
//   reduces  its own slice from its own input and the others' staging, into its own output and the
//            free lane of its own staging, kTurnsAhead turns later;
//   copies   the others' results out, kTurnsAhead turns after that.
// Others no longer read the buffer that a turn stages into: it was last used 3 * kTurnsAhead
// windows before.
static_assert(LocalChannel::kStagingBuffers >= 3 * kTurnsAhead);

class StagedReduce {
 public:
  StagedReduce(LocalChannel& channel, const Call& call, Deadline deadline)
      : channel_(channel),
        call_(call),
        deadline_(deadline),
        bytes_(size_of(call.dtype)),
        lane_(lane_of(call, channel.size())),
        window_elements_(lane_ * static_cast<std::size_t>(channel.size())),
        windows_((call.count + window_elements_ - 1) / window_elements_),
        first_(channel.first_window()),
        reducer_(reduction_of(call, channel.size())),
        inputs_(static_cast<std::size_t>(channel.size())) {}

  void run() {
    take_turns(channel_, windows_, 3, deadline_, [this](std::uint64_t turn, bool past_caches) {
      past_caches_ = past_caches;
      if (turn >= 2 * kTurnsAhead) copy_out(turn - 2 * kTurnsAhead);
      if (turn >= kTurnsAhead && turn - kTurnsAhead < windows_) reduce(turn - kTurnsAhead);
      if (turn < windows_) stage(turn);
    });
  }

 private:
  // Elements of one slice of a window: as many windows as are needed, all of about the same size.
  static std::size_t lane_of(const Call& call, int members) {
    const std::size_t bytes = size_of(call.dtype);
    const auto n = static_cast<std::size_t>(members);
    const std::size_t line = 64 / bytes;
    const std::size_t most = LocalChannel::kStagingBytes / n / 64 * line;
    const std::size_t slices = (call.count + most * n - 1) / (most * n) * n;
    const std::size_t lines = (call.count + line - 1) / line;
    return (lines + slices - 1) / slices * line;
  }
  Range slice(std::uint64_t k, int member) const {
    const std::size_t from = k * window_elements_ + lane_ * static_cast<std::size_t>(member);
    if (from >= call_.count) return {call_.count, 0};
    return {from, std::min(lane_, call_.count - from)};
  }
  std::byte* lane(int member, std::uint64_t k, int of) const {
    return channel_.staging(member, first_ + k) + lane_ * bytes_ * static_cast<std::size_t>(of);
  }

  void stage(std::uint64_t k) {
    for (int member = 0; member < channel_.size(); ++member) {
      if (member == channel_.index()) continue;
      const Range part = slice(k, member);
      (past_caches_ ? copy_around_cache : copy_bytes)(lane(channel_.index(), k, member),
                                                      input_of(call_) + part.from * bytes_,
                                                      part.count * bytes_);
    }
  }

  void reduce(std::uint64_t k) {
    const int self = channel_.index();
    const Range part = slice(k, self);
    for (int member = 0; member < channel_.size(); ++member)
      inputs_[member] =
          member == self ? input_of(call_) + part.from * bytes_ : lane(member, k, self);
    std::byte* shared = lane(self, k, self);
    if (!receives(call_, self)) return reducer_.run(inputs_, {&shared, 1}, part.count);
    std::byte* out = output_of(call_) + part.from * bytes_;
    if (!past_caches_) {
      const std::array<std::byte*, 2> both{shared, out};
      return reducer_.run(inputs_, both, part.count);
    }
    const std::size_t block = kAddBlockBytes / bytes_;
    for (std::size_t done = 0; done < part.count; done += block) {
      const std::size_t count = std::min(block, part.count - done);
      const std::size_t bytes = count * bytes_;
      reducer_.run(inputs_, {&out, 1}, count);
      copy_around_cache(shared, out, bytes);
      for (const std::byte*& input : inputs_) input += bytes;
      out += bytes;
      shared += bytes;
    }
  }

  void copy_out(std::uint64_t k) {
    if (!receives(call_, channel_.index())) return;
    for (int member = 0; member < channel_.size(); ++member) {
      if (member == channel_.index()) continue;
      const Range part = slice(k, member);
      copy_bytes(output_of(call_) + part.from * bytes_, lane(member, k, member),
                 part.count * bytes_);
    }
  }

  LocalChannel& channel_;
  const Call& call_;
  Deadline deadline_;
  std::size_t bytes_;            // of an element
  std::size_t lane_;             // elements of one slice of a window
  std::size_t window_elements_;  // of all slices
  std::uint64_t windows_;
  std::uint64_t first_;
  bool past_caches_ = true;  // of this turn
  TreeReducer reducer_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace

void local_all_reduce(LocalChannel& channel, const Agreement& agreement, const Call& call,
                      Deadline deadline) {
  switch (agreement.mode) {
    case Mode::inlined:
      return reduce_inlined(channel, agreement, call);
    case Mode::direct:
      return reduce_direct(channel, agreement, call, deadline);
    case Mode::staged:
      return StagedReduce(channel, call, deadline).run();
  }
}

}  // namespace cohort::collective
