#pragma once

#include <optional>
#include <string>

#include "cohort/base/net/http_client.h"
#include "cohort/sdk/service_client.h"

// How commands reach the service (docs/platform.md).
namespace cohort::tools {

// The service that runs; where none does, this user's own is started, unless there is nothing that
// it could tell: a root folder without jobs. Nothing then.
std::optional<sdk::ServiceClient> service_with_jobs(const HttpCancel* cancel = nullptr);
// The service that runs, and else nothing: none is started.
std::optional<sdk::ServiceClient> running_service();
// The same as service_with_jobs(); InvalidInput "no job '...'" where that is nothing.
sdk::ServiceClient service_with_job(const std::string& job, const HttpCancel* cancel = nullptr);

// What the service is to be asked for when a person names a job: "latest" is the newest of all.
std::string job_name(sdk::ServiceClient& client, const std::string& named);

// "no jobs yet in ROOT", for commands that have nothing to show.
std::string no_jobs_text();

// While it lives, SIGINT and SIGTERM end the calls of clients that were given `cancel()`, instead of
// the process. One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const HttpCancel* cancel() const { return &cancel_; }

 private:
  HttpCancel cancel_;
};

}  // namespace cohort::tools
