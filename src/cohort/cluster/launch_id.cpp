#include "cohort/cluster/launch_id.h"

#include <vector>

#include "cohort/base/text.h"
#include "cohort/cluster/variables.h"

namespace cohort::cluster {
namespace {

using Names = std::vector<std::string_view>;

// The values of all that are set.
std::string all_of(const Environment& environment, const Names& names) {
  std::vector<std::string> values;
  for (const auto name : names)
    if (auto value = read_text(environment, name)) values.push_back(*value);
  return join(values, ".");
}

std::string first_of(const Environment& environment, const Names& names) {
  for (const auto name : names)
    if (auto value = read_text(environment, name)) return *value;
  return "";
}

}  // namespace

std::string launch_id(const Environment& environment, const std::string& dialect) {
  if (dialect == "torchrun")
    return all_of(environment, {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
                                "TORCHELASTIC_RESTART_COUNT"});
  if (dialect == "Horovod")
    return all_of(environment, {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"});
  if (dialect == "Slurm") return all_of(environment, {"SLURM_JOB_ID", "SLURM_STEP_ID"});
  if (dialect == "OpenMPI" || dialect == "PMIx")
    return first_of(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  if (dialect == "PMI") return first_of(environment, {"PMI_JOBID", "PMI_PORT"});
  return "";
}

}  // namespace cohort::cluster
