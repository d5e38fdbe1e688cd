#include "cohort/train/sync/replica_sync.h"

#include "cohort/base/error.h"
#include "cohort/train/sync/all_reduce_sync.h"
#include "cohort/train/sync/group_agreement.h"
#include "cohort/train/sync/group_evaluation.h"
#include "cohort/train/sync/server_agreement.h"
#include "cohort/train/sync/server_evaluation.h"
#include "cohort/train/sync/server_sync.h"

namespace cohort::train {

std::chrono::nanoseconds ReplicaSync::waited() const {
  std::chrono::nanoseconds waited = evaluation->waited();
  for (std::size_t i = 0; i < phases(); ++i) waited += phase(i).waited();
  return waited;
}

void ReplicaSync::broadcast_from_first() const {
  for (std::size_t i = 0; i < phases(); ++i) phase(i).broadcast_from_first();
}

std::unique_ptr<ReplicaSync> make_replica_sync(const parallel::Replica& replica,
                                               std::chrono::milliseconds timeout,
                                               std::size_t phases) {
  auto sync = std::make_unique<ReplicaSync>(replica);
  if (replica.servers != nullptr) {
    if (phases > 1)
      throw InvalidInput(
          fmt::format("{} phases do not go with the strategy parameter_server", phases),
          {.advice = "Use multi_worker_mirrored, or one phase."});
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
  for (std::size_t i = 1; i < phases; ++i)
    sync->further.push_back(std::make_unique<AllReduceSync>(replica, timeout));
  return sync;
}

}  // namespace cohort::train
