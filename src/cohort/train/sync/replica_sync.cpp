#include "cohort/train/sync/replica_sync.h"

#include "cohort/train/sync/all_reduce_sync.h"
#include "cohort/train/sync/group_agreement.h"
#include "cohort/train/sync/group_evaluation.h"
#include "cohort/train/sync/server_agreement.h"
#include "cohort/train/sync/server_evaluation.h"
#include "cohort/train/sync/server_sync.h"

namespace cohort::train {

std::unique_ptr<ReplicaSync> make_replica_sync(const parallel::Replica& replica,
                                               std::chrono::milliseconds timeout) {
  auto sync = std::make_unique<ReplicaSync>(replica);
  if (replica.servers != nullptr) {
    auto steps = std::make_unique<ServerSync>(replica, timeout);
    sync->agreement = std::make_unique<ServerAgreement>(*steps);
    sync->evaluation = std::make_unique<ServerEvaluation>(*steps);
    sync->steps = std::move(steps);
    return sync;
  }
  auto steps = std::make_unique<AllReduceSync>(replica, timeout);
  sync->agreement = std::make_unique<GroupAgreement>(sync->replica, timeout);
  sync->evaluation = std::make_unique<GroupEvaluation>(
      sync->replica, timeout,
      [all_reduce = steps.get()](Logs& logs) { all_reduce->add_table_sizes(logs); });
  sync->steps = std::move(steps);
  return sync;
}

}  // namespace cohort::train
