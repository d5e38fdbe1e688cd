#pragma once

#include <string>

#include "cohort/collective/backend/call.h"
#include "cohort/collective/native/local_channel.h"
#include "cohort/collective/native/placement.h"
#include "cohort/collective/native/tuning.h"
#include "cohort/transport/messenger.h"

namespace cohort::collective {

// What a call over several hosts runs on: shared memory here, messages between hosts.
struct Hosts {
  LocalChannel& channel;
  transport::Messenger& remote;
  const Placement& placement;
  int rank;
  const TuningTable& tuning;

  int host() const { return placement.host_of[rank]; }
  bool is_leader() const { return channel.index() == 0; }
  int leader_of(int host) const { return placement.ranks_on(host).front(); }
};

// Breaks the group because the ranks' calls differ: a leader tells its host and the others.
[[noreturn]] void raise_mismatch(const Hosts& hosts, const Call& call, const std::string& text);

// A step of a larger call among the ranks of this host; counts and root are in members.
void run_local(const Hosts& hosts, const Call& step, Deadline deadline);

}  // namespace cohort::collective
