#pragma once

#include <string>

#include "cohort/tools/job_connection.h"

namespace cohort::tools {

// A job for a person: its state; of an elastic one its view, members, step, throughput and last
// change, of another its tasks. A pure function of what job.json or a launcher told; a field that
// is not there is left out.
std::string status_text(const KnownJob& job);

}  // namespace cohort::tools
