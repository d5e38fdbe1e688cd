#include "cohort/launch/task_environment.h"

#include <algorithm>
#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::launch {

using cluster::Environment;

std::vector<std::string> remove_foreign_roles(Environment& environment) {
  static const std::vector<std::string> kNames = {
      "TF_CONFIG",        "TASK_TYPE",           "TASK_INDEX",         "RANK",
      "LOCAL_RANK",       "WORLD_SIZE",          "LOCAL_WORLD_SIZE",   "GROUP_RANK",
      "GROUP_WORLD_SIZE", "ROLE_RANK",           "ROLE_NAME",          "ROLE_WORLD_SIZE",
      "MASTER_ADDR",      "MASTER_PORT",         "PMI_RANK",           "PMI_SIZE",
      "PMIX_RANK",        "MPI_LOCALRANKID",     "SLURM_PROCID",       "SLURM_LOCALID",
      "SLURM_NTASKS",     "COHORT_JOB",          "COHORT_RANK",        "COHORT_SIZE",
      "COHORT_STORE",     "COHORT_OUTPUT",       "COHORT_STRATEGY",    "COHORT_CLUSTER",
      "COHORT_ATTEMPT",   "COHORT_MAX_RESTARTS", "COHORT_CHIEF_TRAINS"};
  static const std::vector<std::string> kPrefixes = {"COHORT_TASK_",     "COHORT_LOCAL_",
                                                     "COHORT_CROSS_",    "COHORT_SECRET_",
                                                     "TORCHELASTIC_",    "HOROVOD_RANK",
                                                     "HOROVOD_SIZE",     "HOROVOD_LOCAL_",
                                                     "HOROVOD_CROSS_",   "HOROVOD_GLOO_RENDEZVOUS_",
                                                     "OMPI_COMM_WORLD_", "PET_"};
  std::vector<std::string> removed;
  for (auto entry = environment.begin(); entry != environment.end();) {
    const std::string& name = entry->first;
    bool foreign = std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
                   std::any_of(kPrefixes.begin(), kPrefixes.end(),
                               [&](const auto& prefix) { return name.starts_with(prefix); });
    if (foreign) {
      removed.push_back(name);
      entry = environment.erase(entry);
    } else {
      ++entry;
    }
  }
  return removed;
}

void apply_proxy_mode(Environment& environment, ProxyMode mode,
                      const std::vector<std::string>& hosts) {
  if (mode == ProxyMode::keep) return;
  if (mode == ProxyMode::strip) {
    for (const char* name : {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "grpc_proxy",
                             "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY"})
      environment.erase(name);
    return;
  }
  for (const char* name : {"no_proxy", "NO_PROXY", "no_grpc_proxy"}) {
    auto listed = split(environment.find_value(name).value_or(""), ',');
    for (const auto& host : hosts)
      if (std::find(listed.begin(), listed.end(), host) == listed.end()) listed.push_back(host);
    environment[name] = join(listed, ",");
  }
}

std::vector<std::string> visible_gpus(const Environment& environment) {
  if (auto list = environment.find_value("CUDA_VISIBLE_DEVICES")) return split(*list, ',');
  std::vector<std::string> gpus;
  std::error_code ignored;  // no such folder: no NVIDIA driver, no GPUs
  for ([[maybe_unused]] const auto& gpu :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored))
    gpus.push_back(std::to_string(gpus.size()));
  return gpus;
}

std::string gpus_of_worker(const std::vector<std::string>& gpus, int per_worker, int workers,
                           int local_rank) {
  if (static_cast<int>(gpus.size()) < per_worker * workers)
    throw InvalidInput(
        fmt::format("--gpus-per-worker {} with {} workers needs {} GPUs, but this machine shows {}",
                    per_worker, workers, per_worker * workers, gpus.size()),
        {.advice = "Lower --gpus-per-worker or --workers, or look at CUDA_VISIBLE_DEVICES."});
  auto first = gpus.begin() + per_worker * local_rank;
  return join({first, first + per_worker}, ",");
}

}  // namespace cohort::launch
