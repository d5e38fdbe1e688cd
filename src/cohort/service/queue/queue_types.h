#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/jobspec/resolved_job.h"
#include "cohort/service/queue/node_pool.h"

// What goes into the queue and comes out of it (queue.h). Values.
namespace cohort::service {

using QueueTime = std::int64_t;  // milliseconds of a clock that never steps back

struct QueueJob {
  std::string id;  // among equals in line, ids that sort before came before
  std::string name;
  std::string user;
  int priority = 0;
  jobspec::Size instance;
  int least = 1;
  int most = 1;
  bool scales = false;    // may grow and give back while it runs
  QueueTime max_run = 0;  // 0: endless
};

struct QueueStart {
  std::string id;
  std::vector<Placed> placement;  // of each instance
};

struct QueueScale {
  std::string id;
  int instances = 0;
  std::vector<Placed> placement;  // after it
};

struct Decision {
  std::vector<QueueStart> starts;
  std::vector<QueueScale> scales;
};

}  // namespace cohort::service
