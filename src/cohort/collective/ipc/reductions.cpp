// The calls that add.
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/ipc/address_of.h"
#include "cohort/collective/ipc/ipc_group.h"
#include "cohort/collective/reduction/slices.h"
#include "cohort/collective/reduction/tree.h"

namespace cohort::collective::ipc {

void IpcGroup::reduce_tree(Address into, const std::function<Address(int)>& leaf, std::size_t count,
                           const Reducing& how) {
  if (count == 0) return;
  const ReduceOp op = how.op == ReduceOp::average ? ReduceOp::sum : how.op;
  // The result of a node: a leaf as it lies, others in the memory of their level; 0 is `into`.
  const std::function<Address(Subtree, int)> reduce = [&](Subtree node, int level) {
    if (node.count == 1) return leaf(node.first);
    const int left_count = left_leaves(node.count);
    const Address left = reduce({node.first, left_count}, level);
    const Address right = reduce({node.first + left_count, node.count - left_count}, level + 1);
    const Address result = level == 0 ? into : endpoint_->scratch(level);
    arithmetic_->combine(pointer_to(result), pointer_to(left), pointer_to(right), count, how.dtype,
                         op, how.stream);
    return result;
  };
  reduce({0, size()}, 0);
  if (how.op == ReduceOp::average)
    arithmetic_->divide(pointer_to(into), count, how.dtype, size(), how.stream);
}

void IpcGroup::reduce_small(Address in, Address out, std::size_t count, const Reducing& how) {
  Rounds rounds(*endpoint_, how.stream);
  rounds.begin();
  // The own contribution is read from the slot, too: `out` may be `in`, and is written on the way.
  copy(rounds.own_slot(), in, count * how.element, how.stream);
  rounds.meet();
  reduce_tree(
      out, [&](int peer) { return rounds.slot_of(peer); }, count, how);
  rounds.end();
}

void IpcGroup::reduce_slices(Address in, Address out, std::size_t count, const Reducing& how) {
  // A window holds as much of the message as fits into the lanes of a slot; rank r reduces its r-th
  // slice. Even rounds bring the contributions, odd ones the results.
  const std::size_t window =
      endpoint_->lane_bytes() / how.element * static_cast<std::size_t>(size());
  Rounds rounds(*endpoint_, how.stream);
  rounds.begin();
  for (std::size_t from = 0; from < count; from += window) {
    const std::size_t elements = std::min(window, count - from);
    const std::size_t bytes = elements * how.element;
    const auto slice = [&](int peer) { return slice_of(elements, how.element, peer, size()); };
    const std::size_t own_from = slice(rank()).from * how.element;
    const std::size_t own_bytes = slice(rank()).count * how.element;
    const Address source = in + from * how.element;
    const Address target = out + from * how.element;

    const Address given = rounds.own_slot();
    copy(given, source, own_from, how.stream);
    const std::size_t own_end = own_from + own_bytes;
    copy(given + own_end, source + own_end, bytes - own_end, how.stream);
    rounds.meet();

    const Address result = rounds.own_slot() + own_from;
    reduce_tree(
        result,
        [&](int peer) { return (peer == rank() ? source : rounds.slot_of(peer)) + own_from; },
        slice(rank()).count, how);
    rounds.meet();

    copy(target + own_from, result, own_bytes, how.stream);
    for (const int peer : peers()) {
      const Range theirs = slice(peer);
      copy(target + theirs.from * how.element, rounds.slot_of(peer) + theirs.from * how.element,
           theirs.count * how.element, how.stream);
    }
  }
  rounds.end();
}

void IpcGroup::all_reduce(const void* in, void* out, std::size_t count, DataType dtype, ReduceOp op,
                          DeviceStream stream) {
  const Call call{.kind = CallKind::all_reduce,
                  .dtype = dtype,
                  .op = op,
                  .count = count,
                  .in = in,
                  .out = out,
                  .send_counts = {},
                  .receive_counts = {}};
  run(call, stream, [&] {
    const Reducing how{dtype, op, stream, size_of(dtype)};
    const std::size_t bytes = count * how.element;
    if (size() == 1)
      copy(address_of(out), address_of(in), bytes, stream);
    else if (count > 0 && bytes <= endpoint_->small_bytes())
      reduce_small(address_of(in), address_of(out), count, how);
    else if (count > 0)
      reduce_slices(address_of(in), address_of(out), count, how);
  });
}

void IpcGroup::reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype,
                              ReduceOp op, DeviceStream stream) {
  const Call call{.kind = CallKind::reduce_scatter,
                  .dtype = dtype,
                  .op = op,
                  .count = count,
                  .in = in,
                  .out = out,
                  .send_counts = {},
                  .receive_counts = {}};
  run(call, stream, [&] {
    const Reducing how{dtype, op, stream, size_of(dtype)};
    const std::size_t bytes = count * how.element;
    const auto run_of = [&](int peer) {
      return address_of(in) + static_cast<std::size_t>(peer) * bytes;
    };
    if (size() == 1) return copy(address_of(out), run_of(0), bytes, stream);
    if (count == 0) return;
    const std::size_t lane = endpoint_->lane_bytes();
    const auto self = static_cast<std::size_t>(rank());
    Rounds rounds(*endpoint_, stream);
    rounds.begin();
    for (std::size_t from = 0; from < bytes; from += lane) {
      const std::size_t length = std::min(lane, bytes - from);
      for (const int peer : peers())
        copy(rounds.own_slot() + static_cast<std::size_t>(peer) * lane, run_of(peer) + from, length,
             stream);
      rounds.meet();
      // `out` may be the own run, which more than two ranks would write before they have read it.
      const Address target = address_of(out) + from;
      const Address result = size() == 2 ? target : endpoint_->scratch(0);
      reduce_tree(
          result,
          [&](int peer) {
            return peer == rank() ? run_of(peer) + from : rounds.slot_of(peer) + self * lane;
          },
          length / how.element, how);
      copy(target, result, length, stream);
    }
    rounds.end();
  });
}

}  // namespace cohort::collective::ipc
