#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sdk/service_values.h"

// Jobs of a service as text. Pure functions; what comes from the service is made fit for a terminal.
namespace cohort::tools {

using WallTime = std::chrono::system_clock::time_point;

// RFC 3339 in UTC ("2026-11-16T19:01:02.345Z"); nothing for another text.
std::optional<WallTime> parse_utc(const std::string& text);

// "12s", "5m", "3h10m", "2d4h".
std::string duration_text(std::chrono::seconds duration);

// A line a job, with a head: id, name, state, instances, age, progress, reason. The name and the
// reason are cut so that lines fit into `columns`; 0: nothing is cut.
std::string job_table(const std::vector<sdk::Job>& jobs, WallTime now, int columns);

// "in use: 4 of 8 cores, 3.0 of 16.0 GiB, 0 of 1 GPUs; 2 jobs run, 3 wait".
std::string use_text(const sdk::ServiceInfo& service);

// Everything about one job, over several lines.
std::string job_text(const sdk::Job& job, WallTime now);

// "job 2026...: failed: worker/1 ended with exit code 3": how a job ended.
std::string ending_text(const sdk::Job& job);

}  // namespace cohort::tools
