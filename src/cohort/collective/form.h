#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/native/tuning.h"
#include "cohort/transport/messenger.h"
#include "cohort/transport/rendezvous.h"
#include "cohort/transport/shm/join.h"

namespace cohort::collective {

// One rank of a group, as it introduces itself to the others.
struct Member {
  int rank = 0;
  int size = 1;
  std::string task;  // "worker/1", for errors; empty: "rank 1"
  std::string host;  // for errors; empty: this host's name
  // Ranks with equal identity share memory. Empty: this host's (transport/host.h). Give every rank
  // its own to force all traffic through the messenger.
  std::string host_identity;
};

struct FormOptions {
  std::string id = "world";  // unique among the groups of the rendezvous, the same for all ranks
  std::chrono::milliseconds timeout{300'000};  // the default deadline of every call
  std::size_t part_bytes = 0;                  // shared address space a rank; 0: the default
  TuningTable tuning = {};                     // rank 0's counts for all
  transport::shm::Authenticate authenticate;   // empty: same user only
  // Asked every 10 ms or less often while the group is formed: true ends that with a PeerError.
  std::function<bool()> cancelled = {};
  // This process's memory of earlier groups, which survivors of a loss go on in; nullptr: new
  // memory for every group. A group whose memory may be carried on keeps what it frees.
  std::shared_ptr<transport::shm::CarriedMemory> carried = {};
  // Makes the messenger between hosts; called only when there is more than one. Empty: forming a
  // group over several hosts is refused.
  std::function<std::unique_ptr<transport::Messenger>(
      const Member& self, const std::string& id,
      const std::shared_ptr<transport::Rendezvous>& rendezvous)>
      connect;
};

// A group of one; every collective copies in to out.
std::unique_ptr<Group> make_group_of_one();

// The groups of `size` threads of this process; element r belongs to rank r.
std::vector<std::unique_ptr<Group>> make_inproc_groups(
    int size, std::chrono::milliseconds timeout = std::chrono::minutes(5),
    const TuningTable& tuning = {});

// Joins the group `options.id` as `self`. Collective: every rank calls it. Throws TimeoutError that
// names the ranks that did not come; PeerError as soon as one that had come is dead, or when
// cancelled.
std::unique_ptr<Group> form_group(const Member& self,
                                  std::shared_ptr<transport::Rendezvous> rendezvous,
                                  const FormOptions& options, Deadline deadline);

}  // namespace cohort::collective
