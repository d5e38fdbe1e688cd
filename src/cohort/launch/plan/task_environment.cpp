#include "cohort/launch/plan/task_environment.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::launch {

using cluster::Environment;

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
  std::int64_t needed = std::int64_t{per_worker} * workers;
  if (static_cast<std::int64_t>(gpus.size()) < needed)
    throw InvalidInput(
        fmt::format("--gpus-per-worker {} with {} workers needs {} GPUs, but this machine shows {}",
                    per_worker, workers, needed, gpus.size()),
        {.advice = "Lower --gpus-per-worker or --workers, or look at CUDA_VISIBLE_DEVICES."});
  auto first = gpus.begin() + per_worker * local_rank;
  return join({first, first + per_worker}, ",");
}

}  // namespace cohort::launch
