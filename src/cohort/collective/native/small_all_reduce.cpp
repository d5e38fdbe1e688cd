#include "cohort/collective/native/small_all_reduce.h"

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/exchange_all.h"
#include "cohort/collective/native/recursive_doubling.h"

namespace cohort::collective {

namespace {

// Step 1; nothing but the leader's is filled.
Partials reduce_own_host(const Hosts& hosts, const Call& call, const Agreement& agreement,
                         const Reduction& reduction, Deadline deadline) {
  const std::vector<int> ranks = hosts.placement.ranks_on(hosts.host());
  const std::size_t element = size_of(call.dtype);
  Partials own;
  if (hosts.is_leader())
    own = Partials(maximal_subtrees(reduction.leaves, ranks), reduction, call.count);
  const ExchangePlan plan{1, [&](int, int) -> Extent { return {0, call.count * element}; }};
  exchange(
      hosts.channel, agreement, static_cast<const std::byte*>(call.in), plan,
      [&](std::size_t offset, std::span<const Chunk> chunks) {
        std::byte* to = own.data.data();
        for (const Subtree& node : own.nodes) {
          const std::size_t bytes = bytes_of(node, reduction);
          reduce_node(reduction, node, ranks, chunks, to + offset / element * bytes);
          to += call.count * bytes;
        }
      },
      deadline);
  return own;
}

}  // namespace

void small_all_reduce(const Hosts& hosts, const Call& call, HostAllReduce algorithm,
                      Deadline deadline) {
  const Reduction reduction{call.dtype, call.op, static_cast<int>(hosts.placement.peers.size()),
                            call.pre_scale, call.post_scale};
  const std::size_t bytes = call.count * size_of(call.dtype);
  const Agreement agreement = agree(hosts.channel, call, {call.in, bytes}, false, deadline);
  std::string mismatch = agreement.mismatch;
  // What the leader says to others; slots are overwritten by later steps.
  const CallRecord record = hosts.channel.slot(hosts.channel.index(), agreement.sequence).record;
  Partials own;
  if (mismatch.empty()) own = reduce_own_host(hosts, call, agreement, reduction, deadline);
  if (hosts.is_leader()) {
    LeaderExchange leaders(hosts, record, mismatch);
    auto* result = static_cast<std::byte*>(call.out);
    mismatch =
        algorithm == HostAllReduce::exchange_all
            ? exchange_all(hosts, leaders, own, reduction, call.count, result, deadline)
            : recursive_doubling(hosts, leaders, own, reduction, call.count, result, deadline);
    if (!mismatch.empty()) raise_mismatch(hosts, call, mismatch);
  }
  if (!mismatch.empty()) raise_mismatch(hosts, call, mismatch);
  Call hand_out;
  hand_out.kind = CallKind::broadcast;
  hand_out.in = hand_out.out = call.out;
  hand_out.count = bytes;
  hand_out.sequence = call.sequence;
  run_local(hosts, hand_out, deadline);
}

}  // namespace cohort::collective
