#include "cohort/collective/native/hierarchical.h"

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/host_moves.h"
#include "cohort/collective/native/host_reduce.h"
#include "cohort/collective/native/wire_record.h"

namespace cohort::collective {

namespace {

using transport::Lane;

// What one leader has to say about another host's call, or "".
std::string compare(const Hosts& hosts, const CallRecord& own, int other_rank,
                    const std::optional<WireRecord>& theirs) {
  const Peer& other = hosts.placement.peers[other_rank];
  if (!theirs) return fmt::format("{} described its call in an unknown way", other.name());
  if (same_call(own, theirs->record)) return theirs->mismatch;
  return fmt::format("the ranks' calls differ: {} called {}, {} called {}",
                     hosts.placement.peers[hosts.rank].name(), describe(own), other.name(),
                     describe(theirs->record));
}

// Leaders swap descriptions; returns the first disagreement that this one sees.
std::string compare_between_hosts(const Hosts& hosts, const CallRecord& own,
                                  const std::string& local_mismatch, Deadline deadline) {
  const WireRecord::Bytes mine = WireRecord{own, local_mismatch}.encode();
  const int count = hosts.placement.hosts();
  std::vector<WireRecord::Bytes> theirs(static_cast<std::size_t>(count));
  std::vector<std::unique_ptr<transport::Transfer>> sends, receives(theirs.size());
  for (int host = 0; host < count; ++host) {
    if (host == hosts.host()) continue;
    const int leader = hosts.leader_of(host);
    receives[host] = hosts.remote.receive(leader, Lane::collective, theirs[host]);
    sends.push_back(hosts.remote.send(leader, Lane::collective, mine));
  }
  std::string mismatch = local_mismatch;
  for (int host = 0; host < count; ++host) {
    if (host == hosts.host()) continue;
    receives[host]->wait(WireRecord::kBytes, deadline);
    const std::string found =
        compare(hosts, own, hosts.leader_of(host), WireRecord::decode(theirs[host]));
    if (mismatch.empty()) mismatch = found;
  }
  for (auto& send : sends) send->wait(WireRecord::kBytes, deadline);
  return mismatch;
}

// Every rank learns whether all agree: members of a host find out from their leader, who either
// meets them in a barrier or breaks the board.
void agree_everywhere(const Hosts& hosts, const Call& call, Deadline deadline) {
  const Agreement local = agree(hosts.board, call, {}, false, deadline);
  std::string mismatch = local.mismatch;
  if (hosts.is_leader())
    mismatch = compare_between_hosts(hosts, hosts.board.slot(0, local.sequence).record, mismatch,
                                     deadline);
  if (mismatch.empty()) {
    Call barrier;
    barrier.sequence = call.sequence;
    run_local(hosts, barrier, deadline);
    return;
  }
  const Failure failure{FailureKind::mismatch, -1, mismatch, describe(call)};
  if (hosts.is_leader()) hosts.board.fail(failure);
  failure.raise();
}

}  // namespace

void hierarchical_execute(const Hosts& hosts, const Call& call, Deadline deadline) {
  // The other hosts know before this rank's caller does.
  const auto broke = [&](Failure failure) {
    failure = hosts.board.fail(std::move(failure));
    hosts.remote.abort({static_cast<std::uint32_t>(failure.kind), failure.culprit, failure.text});
    failure.raise();
  };
  const auto broke_by = [&](FailureKind kind, const Error& error) {
    broke({kind, -1, error.message(), describe(call)});
  };
  try {
    agree_everywhere(hosts, call, deadline);
    switch (call.kind) {
      case CallKind::all_reduce:
      case CallKind::reduce:
      case CallKind::reduce_scatter:
        return host_reduce(hosts, call, deadline);
      default:
        return host_move(hosts, call, deadline);
    }
  } catch (const PeerError& error) {
    if (const auto notice = hosts.remote.aborted())
      broke(
          {static_cast<FailureKind>(notice->kind), notice->culprit, notice->text, describe(call)});
    broke_by(FailureKind::aborted, error);
  } catch (const TimeoutError& error) {
    broke_by(FailureKind::timed_out, error);
  } catch (const ProtocolError& error) {
    broke_by(FailureKind::protocol, error);
  }
}

}  // namespace cohort::collective
