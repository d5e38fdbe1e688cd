#include "cohort/engine/task_variables.h"

#include <algorithm>
#include <array>

#include "cohort/base/process/last_word.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/cluster/role.h"

namespace cohort::engine {
namespace {

using cluster::Environment;

// The names by which a launcher tells a task its role, in any dialect.
Environment role_variables() {
  Environment written;
  cluster::Role one;
  one.cluster.set(cluster::TaskType::worker, {{"localhost", 1}});
  one.job = one.output = one.strategy = "x";
  one.store = one.master = one.horovod_rendezvous = cluster::Address{"localhost", 1};
  cluster::write_all_dialects(one, written);
  return written;
}

}  // namespace

void forget_launcher(Environment& environment) {
  for (const auto& [name, value] : role_variables())
    if (!name.starts_with("OMPI_") && !name.starts_with("PMI") && name != "COHORT_JOB")
      environment.erase(name);
  for (const char* name :
       {"COHORT_SECRET_FD", kRestartFlagVariable, kRestartStateVariable, kLastWordVariable})
    environment.erase(name);
}

Environment told_to_containers(const Environment& inherited) {
  static constexpr std::array<std::string_view, 9> kPrefixes = {
      "COHORT_", "HOROVOD_", "NCCL_", "OMPI_", "PMIX_", "PMI_", "OMP_", "MKL_", "UCX_"};
  static constexpr std::array<std::string_view, 8> kNames = {
      "CUDA_VISIBLE_DEVICES", "http_proxy", "https_proxy", "no_proxy",
      "no_grpc_proxy",        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};
  const Environment roles = role_variables();
  Environment told;
  for (const auto& [name, value] : inherited) {
    const auto begins_with = [&name = name](std::string_view prefix) {
      return name.starts_with(prefix);
    };
    if (roles.contains(name) || std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
        std::any_of(kPrefixes.begin(), kPrefixes.end(), begins_with))
      told[name] = value;
  }
  return told;
}

}  // namespace cohort::engine
