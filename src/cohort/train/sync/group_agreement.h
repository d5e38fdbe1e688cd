#pragma once

#include <chrono>

#include "cohort/base/deadline.h"
#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/sync/agreement.h"

namespace cohort::train {

// Replicas that have a group.
class GroupAgreement final : public Agreement {
 public:
  // `replica` must outlive it, and may change between calls (elastic_sync.h).
  GroupAgreement(const parallel::Replica& replica, std::chrono::milliseconds timeout)
      : replica_(replica), timeout_(timeout) {}

  void agree(const nlohmann::json& values) override;
  std::string broadcast_text(const std::function<std::string()>& make) override;
  AgreedRequests agree_on_requests(const CallbackRequests& requests) override;
  // The same, and whether `flag` is set on any replica, which it becomes on all.
  AgreedRequests agree_on_requests(const CallbackRequests& requests, bool& flag);

 private:
  const parallel::Replica& replica_;
  std::chrono::milliseconds timeout_;
};

}  // namespace cohort::train
