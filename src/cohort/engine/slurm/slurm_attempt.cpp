#include "cohort/engine/slurm/slurm_attempt.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/engine/attempt_status.h"
#include "cohort/launch/job/slurm_allocation.h"

namespace cohort::engine {
namespace {

constexpr std::string_view kSlurmOwner = "slurm ";

// Prints `NODE:SLOTS` for each node that Slurm still has in the job, as a host discovery script. It
// is run every second, and asks the controller at most every three.
constexpr const char* kNodeScript = R"(#!/bin/sh
[ ! -e {0}.asked ] || sleep 3
: > {0}.asked
nodes=$(squeue --noheader --jobs="$SLURM_JOB_ID" --states=all --format=%N) || exit 1
[ -n "$nodes" ] || exit 1
for node in $(scontrol show hostnames "$nodes"); do
  case $node in
{1}  esac
done
)";

}  // namespace

std::optional<SlurmId> claiming_slurm_job(const AttemptFolder& folder) {
  const auto owner = claimed_by(folder);
  if (!owner || !owner->starts_with(kSlurmOwner)) return std::nullopt;
  return parse_unsigned(std::string_view(*owner).substr(kSlurmOwner.size()));
}

SlurmTurn claim_for_slurm(const AttemptFolder& folder, const cluster::Environment& environment) {
  const auto id = parse_unsigned(environment.find_value("SLURM_JOB_ID").value_or(""));
  if (!id)
    throw InvalidInput("--slurm: this is no Slurm job (SLURM_JOB_ID is not set)",
                       {.advice = "The script of a Slurm job runs this command by itself."});
  if (claim_attempt(folder, fmt::format("{}{}", kSlurmOwner, *id))) return SlurmTurn::first;
  if (claiming_slurm_job(folder) != id) return SlurmTurn::taken;
  if (recorded_status(folder).state == AttemptState::succeeded) return SlurmTurn::taken;
  std::filesystem::remove(folder.failure());
  return SlurmTurn::again;
}

void place_on_allocation(const AttemptRequest& request, const cluster::Environment& environment,
                         launch::JobOptions& asked) {
  const jobspec::ResolvedJob& job = request.job;
  launch::take_slurm_allocation(asked, environment,
                                std::max(1, job.processes / std::max(1, job.instances)));
  asked.gpus_per_worker.reset();
  if (!asked.elastic) return;
  std::string cases;
  for (const launch::Host& host : asked.hosts)
    cases += fmt::format("    {0}) echo {0}:{1} ;;\n", host.name, host.slots.value_or(1));
  const auto script = AttemptFolder{request.folder}.node_script();
  std::filesystem::remove(script.string() + ".asked");
  write_file_atomically(
      script, fmt::format(fmt::runtime(kNodeScript), shell_quote(script.string()), cases), 0700);
  asked.hosts.clear();
  asked.elastic->discovery_script = script;
}

}  // namespace cohort::engine
