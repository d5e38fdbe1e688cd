#pragma once

#include <string>

#include "cohort/sdk/log_printer.h"
#include "cohort/sdk/service_client.h"

namespace cohort::tools {

// Prints logs of a submitted job on standard output: on a terminal with colours as `cohort run` has
// them, and fit for it. Confined to one thread. Failure: as ServiceClient; Error when the reader is
// gone.
class JobLogScreen {
 public:
  explicit JobLogScreen(bool show_tasks);

  // Until the job has ended.
  sdk::JobEnd follow(sdk::ServiceClient& client, const std::string& job,
                     const sdk::LogQuery& query);
  void read(sdk::ServiceClient& client, const std::string& job, const sdk::LogQuery& query,
            int attempt);

  // Behind what was followed until now: LogQuery::after.
  const std::string& cursor() const { return cursor_; }

 private:
  void take(const sdk::LogText& piece);

  sdk::LogPrinter printer_;
  std::string cursor_;
};

}  // namespace cohort::tools
