#pragma once

#include <cstdint>

#include "cohort/service/jobs/job_operations.h"

namespace cohort::service {

// What is kept of jobs that have ended. Pinned ones are kept anyway.
struct Retention {
  int days = 0;             // after their end; 0: for ever
  std::uint64_t bytes = 0;  // the folders of all jobs together; 0: no limit

  bool is_limited() const { return days > 0 || bytes > 0; }
};

// Removes the jobs that have had their time, then, while the folders take more than the limit,
// those that ended first; and events of jobs that are gone once they have had theirs. Returns how
// many jobs. One that cannot be removed is logged and left.
int apply_retention(const Retention& retention, JobOperations& operations,
                    const RunFolders& folders, Millis now);

}  // namespace cohort::service
