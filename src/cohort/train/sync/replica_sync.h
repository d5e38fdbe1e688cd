#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/sync/agreement.h"
#include "cohort/train/sync/evaluation_sharing.h"
#include "cohort/train/sync/step_sync.h"

namespace cohort::train {

// Everything that one replica does together with the others of its job. The parts refer to
// `replica`: it stays where it is.
struct ReplicaSync {
  explicit ReplicaSync(const parallel::Replica& as_given) : replica(as_given) {}
  ReplicaSync(const ReplicaSync&) = delete;
  ReplicaSync& operator=(const ReplicaSync&) = delete;

  std::size_t phases() const { return 1 + further.size(); }
  StepSync& phase(std::size_t number) const { return number == 0 ? *steps : *further[number - 1]; }
  std::chrono::nanoseconds waited() const;  // for other replicas
  void broadcast_from_first() const;        // as StepSync's, of all phases

  parallel::Replica replica;  // in an elastic job: as it is in the current view
  std::unique_ptr<StepSync> steps;
  std::vector<std::unique_ptr<StepSync>> further;  // of the phases after the first
  std::unique_ptr<Agreement> agreement;
  std::unique_ptr<EvaluationSharing> evaluation;
};

// Of a job whose members stay, with the strategy's group or its parameter servers. `timeout`: for
// any one exchange. InvalidInput for several phases with parameter servers.
std::unique_ptr<ReplicaSync> make_replica_sync(const parallel::Replica& replica,
                                               std::chrono::milliseconds timeout,
                                               std::size_t phases = 1);

}  // namespace cohort::train
