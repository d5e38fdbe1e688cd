#include "cohort/collective/native/hosts.h"

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/local.h"
#include "cohort/collective/native/spread_failure.h"

namespace cohort::collective {

void raise_mismatch(const Hosts& hosts, const Call& call, const std::string& text) {
  const Failure failure{FailureKind::mismatch, -1, text, describe(call)};
  if (hosts.is_leader()) {
    hosts.channel.fail(failure);
    hosts.remote.abort({static_cast<std::uint32_t>(failure.kind), failure.culprit, failure.text});
  }
  failure.raise();
}

void run_local(const Hosts& hosts, const Call& step, Deadline deadline) {
  LocalChannel& channel = hosts.channel;
  // Here, as the caller has messages to other hosts under way: they hear the cause before those are
  // given up.
  or_spread_failure(
      channel, hosts.remote, [&] { return describe(step); },
      [&] {
        const Agreement agreement = agree(
            channel, step, exposure_of(step, channel.index(), channel.size()), true, deadline);
        COHORT_CHECK(agreement.mismatch.empty(), "{}", agreement.mismatch);
        local_execute(channel, agreement, step, deadline);
      });
}

}  // namespace cohort::collective
