#include "cohort/collective/native/all_reduce.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cohort/collective/kernels.h"
#include "cohort/collective/native/slices.h"
#include "cohort/collective/reduce_tree.h"

namespace cohort::collective {

namespace {

using Mark = Board::Mark;

bool receives(const Call& call, int member) {
  return call.kind == CallKind::all_reduce || call.root == member;
}

Reduction reduction_of(const Call& call, int members) {
  return {call.dtype, call.op, members, call.pre_scale, call.post_scale};
}

const std::byte* input_of(const Call& call) { return static_cast<const std::byte*>(call.in); }
std::byte* output_of(const Call& call) { return static_cast<std::byte*>(call.out); }

// Everybody reduces everything for itself from the slots: one wait in all.
void reduce_inlined(Board& board, const Agreement& agreement, const Call& call) {
  if (!receives(call, board.index())) return;
  const TreeReducer reducer(reduction_of(call, board.size()));
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(board.size()));
  for (int i = 0; i < board.size(); ++i) inputs[i] = board.slot(i, agreement.sequence).inline_data;
  std::byte* output = output_of(call);
  reducer.run(inputs, {&output, 1}, call.count);
}

// Each member reduces its slice out of everybody's input into everybody's output.
void reduce_direct(Board& board, const Agreement& agreement, const Call& call, Deadline deadline) {
  const std::size_t bytes = size_of(call.dtype);
  const Range slice = slice_of(call.count, bytes, board.index(), board.size());
  const transport::Arena& arena = board.domain().arena();
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (int i = 0; i < board.size(); ++i) {
    const CallRecord& record = board.slot(i, agreement.sequence).record;
    inputs.push_back(arena.resolve(record.in) + slice.from * bytes);
    if (receives(call, i)) outputs.push_back(arena.resolve(record.out) + slice.from * bytes);
  }
  TreeReducer(reduction_of(call, board.size())).run(inputs, outputs, slice.count);
  const std::uint64_t window = board.first_window();
  board.advance(1);
  board.post(Mark::consumed, window + 1);
  board.await_all(Mark::consumed, window + 1, deadline);
}

// A pipeline of windows. In window k each member (1) copies the others' slices of its input into
// its staging buffer, (2) reduces its own slice from its own input and the others' staging, into
// its own output and the free lane of its own staging, (3) copies the others' results out.
class StagedReduce {
 public:
  StagedReduce(Board& board, const Call& call, Deadline deadline)
      : board_(board),
        call_(call),
        deadline_(deadline),
        bytes_(size_of(call.dtype)),
        lane_(Board::kStagingBytes / static_cast<std::size_t>(board.size()) / 64 * 64 / bytes_),
        window_elements_(lane_ * static_cast<std::size_t>(board.size())),
        windows_((call.count + window_elements_ - 1) / window_elements_),
        first_(board.first_window()),
        reducer_(reduction_of(call, board.size())),
        inputs_(static_cast<std::size_t>(board.size())) {}

  void run() {
    board_.advance(windows_);
    for (std::uint64_t k = 0; k < windows_ + 2; ++k) {
      if (k < windows_) stage(k);
      if (k >= 1 && k - 1 < windows_) reduce(k - 1);
      if (k >= 2) copy_out(k - 2);
    }
  }

 private:
  Range slice(std::uint64_t k, int member) const {
    const std::size_t from = k * window_elements_ + lane_ * static_cast<std::size_t>(member);
    if (from >= call_.count) return {call_.count, 0};
    return {from, std::min(lane_, call_.count - from)};
  }
  std::byte* lane(int member, std::uint64_t k, int of) const {
    return board_.staging(member, first_ + k) + lane_ * bytes_ * static_cast<std::size_t>(of);
  }

  void stage(std::uint64_t k) {
    const std::uint64_t window = first_ + k;
    if (window >= Board::kStagingBuffers)
      board_.await_all(Mark::consumed, window + 1 - Board::kStagingBuffers, deadline_);
    for (int member = 0; member < board_.size(); ++member) {
      if (member == board_.index()) continue;
      const Range part = slice(k, member);
      if (part.count > 0)
        copy_bytes(lane(board_.index(), k, member), input_of(call_) + part.from * bytes_,
                   part.count * bytes_);
    }
    board_.post(Mark::staged, window + 1);
  }

  void reduce(std::uint64_t k) {
    board_.await_all(Mark::staged, first_ + k + 1, deadline_);
    const int self = board_.index();
    const Range part = slice(k, self);
    if (part.count > 0) {
      for (int member = 0; member < board_.size(); ++member)
        inputs_[member] =
            member == self ? input_of(call_) + part.from * bytes_ : lane(member, k, self);
      std::array<std::byte*, 2> outputs{lane(self, k, self), nullptr};
      std::size_t count = 1;
      if (receives(call_, self)) outputs[count++] = output_of(call_) + part.from * bytes_;
      reducer_.run(inputs_, std::span(outputs).first(count), part.count);
    }
    board_.post(Mark::reduced, first_ + k + 1);
  }

  void copy_out(std::uint64_t k) {
    if (receives(call_, board_.index())) {
      board_.await_all(Mark::reduced, first_ + k + 1, deadline_);
      for (int member = 0; member < board_.size(); ++member) {
        if (member == board_.index()) continue;
        const Range part = slice(k, member);
        if (part.count > 0)
          copy_bytes(output_of(call_) + part.from * bytes_, lane(member, k, member),
                     part.count * bytes_);
      }
    }
    board_.post(Mark::consumed, first_ + k + 1);
  }

  Board& board_;
  const Call& call_;
  Deadline deadline_;
  std::size_t bytes_;            // of an element
  std::size_t lane_;             // elements of one slice of a window
  std::size_t window_elements_;  // of all slices
  std::uint64_t windows_;
  std::uint64_t first_;
  TreeReducer reducer_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace

void local_all_reduce(Board& board, const Agreement& agreement, const Call& call,
                      Deadline deadline) {
  switch (agreement.mode) {
    case Mode::inlined:
      return reduce_inlined(board, agreement, call);
    case Mode::direct:
      return reduce_direct(board, agreement, call, deadline);
    case Mode::staged:
      return StagedReduce(board, call, deadline).run();
  }
}

}  // namespace cohort::collective
