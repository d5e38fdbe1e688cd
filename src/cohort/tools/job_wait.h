#pragma once

#include <string>

#include "cohort/sdk/service_client.h"

namespace cohort::tools {

constexpr int kLeft = 130;  // Ctrl-C: the job goes on

// Waits until a job has ended, and shows its log meanwhile with `follow`, else a line whenever its
// state or what it waits for changes. The last line on standard error is how it ended. Ctrl-C asks,
// on a terminal, whether to stop the job or to leave it; elsewhere the job is left, and a line says
// how to stop it. Returns the exit code: the job's, or 130 where it was left.
int wait_for_job(const sdk::ServiceAddress& service, const std::string& job, bool follow);

// A line on standard error for everything that the job waits for, until it runs or has ended. This
// user's own service is started again where it went away.
void tell_waiting(sdk::ServiceClient& client, const std::string& job);

}  // namespace cohort::tools
