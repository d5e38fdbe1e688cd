#pragma once

#include "cohort/train/sync/agreement.h"
#include "cohort/train/sync/server_sync.h"

namespace cohort::train {

// Workers that know of each other by way of the parameter servers and the job's store alone.
// `steps` must outlive it.
class ServerAgreement final : public Agreement {
 public:
  explicit ServerAgreement(ServerSync& steps) : steps_(steps) {}

  void agree(const nlohmann::json& values) override;
  std::string broadcast_text(const std::function<std::string()>& make) override;
  // Not collective: a request travels with the end of the next step.
  AgreedRequests agree_on_requests(const CallbackRequests& requests) override;

 private:
  ServerSync& steps_;
};

}  // namespace cohort::train
