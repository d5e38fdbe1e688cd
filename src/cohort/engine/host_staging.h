#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/job.h"

// Program and data on other hosts, before anything starts there.
namespace cohort::engine {

// Whether tasks of the job may run on other hosts, which cannot read the attempt's folder.
bool runs_elsewhere(const launch::JobOptions& asked);

// The request as the tasks there get it: the source lies below each host's own home folder.
AttemptRequest as_on_hosts(AttemptRequest request);

// Puts the source on every host of `asked` that has it not yet, through its remote shell, and asks
// each what it lacks; 64 hosts at once. Throws InvalidInput that says what is missing where, for
// all of them; nothing has been started then.
void stage_on_hosts(const AttemptRequest& request, const launch::JobOptions& asked);

// What keeps jobs without source and data from running on these hosts, a sentence each that begins
// with the host's name: a host key, a missing or other Cohort, a host that does not answer. Each
// host gets 30 s, and ssh's own limits.
std::vector<std::string> missing_for_hosts(const launch::JobOptions& asked);

// The host's side, `cohort exec-task --check` and `--stage ID`. The first takes the request as JSON
// and answers in one line: {"cohort": version, "source": whether it is there, "missing": ["...",
// ...]}. The second unpacks an archive, whose SHA-256 must be `id`, below the home folder.
std::string answer_check(std::string_view request, const cluster::Environment& environment);
void stage_here(const std::filesystem::path& archive, const std::string& id,
                const cluster::Environment& environment);

}  // namespace cohort::engine
