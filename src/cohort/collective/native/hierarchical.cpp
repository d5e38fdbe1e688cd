#include "cohort/collective/native/hierarchical.h"

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/host_broadcast.h"
#include "cohort/collective/native/host_moves.h"
#include "cohort/collective/native/host_reduce.h"
#include "cohort/collective/native/leader_exchange.h"
#include "cohort/collective/native/small_all_reduce.h"
#include "cohort/collective/native/spread_failure.h"

namespace cohort::collective {

namespace {

// Only a host's leader knows which host it waits for, so at a deadline it has the first word: the
// other ranks of its host would blame the leader itself.
constexpr auto kLeaderFirst = std::chrono::milliseconds(250);

// Leaders swap descriptions; returns the first disagreement that this one sees.
std::string compare_between_hosts(const Hosts& hosts, const CallRecord& own,
                                  const std::string& local_mismatch, Deadline deadline) {
  LeaderExchange leaders(hosts, own, local_mismatch);
  for (int host = 0; host < hosts.placement.hosts(); ++host)
    if (host != hosts.host()) leaders.swap(host, {}, {});
  leaders.wait(deadline);
  return leaders.mismatch();
}

// Every rank learns whether all agree: members of a host find out from their leader, who either
// meets them in a barrier or breaks the channel.
void agree_everywhere(const Hosts& hosts, const Call& call, Deadline deadline) {
  const Agreement local = agree(hosts.channel, call, {}, false, deadline);
  std::string mismatch = local.mismatch;
  if (hosts.is_leader())
    mismatch = compare_between_hosts(hosts, hosts.channel.slot(0, local.sequence).record, mismatch,
                                     deadline);
  if (mismatch.empty()) {
    Call barrier;
    barrier.sequence = call.sequence;
    run_local(hosts, barrier, deadline);
    return;
  }
  raise_mismatch(hosts, call, mismatch);
}

void execute(const Hosts& hosts, const Call& call, Deadline deadline) {
  if (call.kind == CallKind::all_reduce) {
    const auto algorithm =
        hosts.tuning.all_reduce(hosts.placement.hosts(), call.count * size_of(call.dtype));
    if (algorithm != HostAllReduce::reduce_scatter)
      return small_all_reduce(hosts, call, algorithm, deadline);
  }
  agree_everywhere(hosts, call, deadline);
  switch (call.kind) {
    case CallKind::all_reduce:
    case CallKind::reduce:
    case CallKind::reduce_scatter:
      return host_reduce(hosts, call, deadline);
    case CallKind::broadcast:
      return host_broadcast(hosts, call, deadline);
    default:
      return host_move(hosts, call, deadline);
  }
}

}  // namespace

void hierarchical_execute(const Hosts& hosts, const Call& call, Deadline deadline) {
  if (!hosts.is_leader() && !deadline.is_never())
    deadline = Deadline::at(deadline.when() + kLeaderFirst);
  or_spread_failure(
      hosts.channel, hosts.remote, [&] { return describe(call); },
      [&] { execute(hosts, call, deadline); });
}

}  // namespace cohort::collective
