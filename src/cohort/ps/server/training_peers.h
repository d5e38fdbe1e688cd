#pragma once

#include <string>

#include "cohort/ps/server/outbox.h"

namespace cohort::ps {

// How a training reaches its workers.
class TrainingPeers {
 public:
  virtual ~TrainingPeers() = default;
  virtual Outbox* outbox(int worker) = 0;  // null: it is not connected
  // Tells the worker and ends its connection.
  virtual void refuse(int worker, const std::string& reason, const std::string& advice) = 0;
};

}  // namespace cohort::ps
