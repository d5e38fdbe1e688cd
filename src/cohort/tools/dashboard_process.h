#pragma once

#include <filesystem>

#include "cohort/base/unique_fd.h"

namespace cohort::tools {

// `cohort run --dashboard`: a process of its own, `cohort attach -`, that shows the run in the page.
// It must be started before the launcher becomes the parent of orphans (launch::Supervisor): so it is
// no descendant of it, and the launcher neither waits for it nor ends it, or the service that it may
// start. When it fails, it says so, and the run goes on.
// Confined to one thread. The constructor throws SystemError.
class DashboardProcess {
 public:
  DashboardProcess();

  // The run's output folder; once. Without it the process ends.
  void show(const std::filesystem::path& output);

 private:
  UniqueFd pipe_;
};

}  // namespace cohort::tools
