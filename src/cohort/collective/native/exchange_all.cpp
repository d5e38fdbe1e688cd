#include "cohort/collective/native/exchange_all.h"

namespace cohort::collective {

std::string exchange_all(const Hosts& hosts, LeaderExchange& leaders, const Partials& own,
                         const Reduction& reduction, std::size_t count, std::byte* result,
                         Deadline deadline) {
  const int host_count = hosts.placement.hosts();
  std::vector<Partials> all(static_cast<std::size_t>(host_count));
  std::vector<const Partials*> sources;
  for (int host = 0; host < host_count; ++host) {
    if (host == hosts.host()) {
      sources.push_back(&own);
      continue;
    }
    const std::vector<int> ranks = hosts.placement.ranks_on(host);
    all[host] = Partials(maximal_subtrees(reduction.leaves, ranks), reduction, count);
    leaders.swap(host, own.data, all[host].data);
    sources.push_back(&all[host]);
  }
  leaders.wait(deadline);
  if (leaders.mismatch().empty()) finish(sources, reduction, count, result);
  return leaders.mismatch();
}

}  // namespace cohort::collective
