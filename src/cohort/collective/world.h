#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/cluster/session/session.h"
#include "cohort/collective/form.h"
#include "cohort/collective/group.h"

namespace cohort::collective {

// Some leases: a job that cannot go on without a rank gives one that is stopped more time than an
// elastic job does.
constexpr std::chrono::seconds kDefaultSilence{10};

// How the ranks of a job reach and trust each other.
struct NetworkOptions {
  std::optional<Secret> secret;  // nothing: peers prove nothing; loopback only, unless `insecure`
  bool insecure = false;
  bool tls = false;                     // TLS 1.3 between hosts
  int streams = 0;                      // connections to each peer; 0: as many as pay
  std::string bind_host = "127.0.0.1";  // "": every interface
  std::string advertise;                // what peers connect to; empty: follows bind_host
  // How long an open connection may bring nothing while this rank waits for it; 0: for ever.
  std::chrono::milliseconds silence = kDefaultSilence;
  TuningTable tuning;  // which algorithms to use; rank 0's counts for all

  // COHORT_SECRET_FD, COHORT_SECRET_FILE, COHORT_INSECURE, COHORT_TLS, COHORT_STREAMS,
  // COHORT_SILENCE; on rank 0 COHORT_TUNING, a file that `cohort tune` writes. Throws InvalidInput. Where to bind
  // follows from the role.
  static NetworkOptions from(const cluster::Environment& environment, const cluster::Role& role);
};

// Fills in FormOptions' `tuning`, `connect` (TCP) and `authenticate` (the handshake before shared
// memory is handed over).
void use_network(FormOptions& form, const NetworkOptions& network);

// The group of all training tasks of the session's job, rank by rank. Collective. `session` must
// outlive the group and its sub-groups. A task that is alone gets a group of one. Where `network`
// has no secret, the session's counts. Throws InvalidInput for a task that does not train;
// otherwise as form_group.
std::unique_ptr<Group> form_world(cluster::Session& session, const NetworkOptions& network,
                                  std::chrono::milliseconds timeout = std::chrono::minutes(5));

// A program's place in its job, from one call:
//   auto world = cohort::collective::join_world(argc, argv);
//   world.group->all_reduce(std::span(data));
//   world.leave();
// Movable. Destroying it without leave() tells the others that this task was lost.
struct World {
  std::unique_ptr<cluster::Session> session;
  std::unique_ptr<Group> group;  // null for a task that does not train (ps, evaluator)
  // Ends what the group ran on (MPI): leave() calls it last. Empty where there is nothing to end.
  std::function<void()> finalize;

  // This task is done; returns when the others no longer need what it hosts, at the latest at the
  // deadline.
  void leave(Deadline deadline = Deadline::after(std::chrono::minutes(5)));
};

// Finds the role of this process (cluster::discover_role) and joins. With no launcher and no
// environment the world has one rank. Throws InvalidInput, AuthError, TimeoutError, PeerError.
World join_world(int argc, const char* const* argv);
World join_world(const cluster::Environment& environment,
                 const std::vector<std::string>& arguments);

}  // namespace cohort::collective
