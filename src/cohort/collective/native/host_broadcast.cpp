#include "cohort/collective/native/host_broadcast.h"

#include <algorithm>

#include "cohort/collective/native/messages.h"

namespace cohort::collective {

void host_broadcast(const Hosts& hosts, const Call& call, Deadline deadline) {
  const std::size_t bytes = call.count * size_of(call.dtype);
  auto* data = static_cast<std::byte*>(call.out);
  const int count = hosts.placement.hosts();
  const int root_host = hosts.placement.host_of[call.root];
  const auto relay = [&](int position) {
    const int host = (root_host + position) % count;
    return host == root_host ? call.root : hosts.leader_of(host);
  };
  const int position = (hosts.host() - root_host + count) % count;

  if (hosts.rank == relay(position)) {
    Messages messages(hosts);
    const bool flat = hosts.tuning.broadcast(count, bytes) == HostBroadcast::flat;
    // Binomial: the lowest set bit of the position; for the root beyond all.
    int step = 1;
    while (step < count && (position & step) == 0) step *= 2;
    if (position != 0) {
      messages.receive(relay(flat ? 0 : position - step), data, bytes);
      messages.wait(deadline);
    }
    if (flat) {
      for (int other = 1; position == 0 && other < count; ++other)
        messages.send(relay(other), data, bytes);
    } else {
      for (step /= 2; step > 0; step /= 2)
        if (position + step < count) messages.send(relay(position + step), data, bytes);
    }
    messages.wait(deadline);
  }

  const std::vector<int> ranks = hosts.placement.ranks_on(hosts.host());
  Call inside;
  inside.kind = CallKind::broadcast;
  inside.in = inside.out = data;
  inside.count = bytes;
  inside.root =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), relay(position)) - ranks.begin());
  inside.sequence = call.sequence;
  run_local(hosts, inside, deadline);
}

}  // namespace cohort::collective
