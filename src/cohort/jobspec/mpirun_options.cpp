#include "cohort/jobspec/mpirun_options.h"

#include <algorithm>
#include <array>

namespace cohort::jobspec {
namespace {

struct MpirunOption {
  std::string_view name;
  int values;
};

// What `mpirun --help all` of Open MPI 4.1 names. Sorted.
constexpr auto kMpirunOptions = std::to_array<MpirunOption>({
    {"H", 1},
    {"N", 1},
    {"V", 0},
    {"allow-run-as-root", 0},
    {"am", 1},
    {"app", 1},
    {"bind-to", 1},
    {"bind-to-core", 0},
    {"bind-to-socket", 0},
    {"bycore", 0},
    {"bynode", 0},
    {"byslot", 0},
    {"c", 1},
    {"cartofile", 1},
    {"cf", 1},
    {"continuous", 0},
    {"cpu-list", 1},
    {"cpu-set", 1},
    {"cpus-per-proc", 1},
    {"cpus-per-rank", 1},
    {"d", 0},
    {"debug", 0},
    {"debug-daemons", 0},
    {"debug-daemons-file", 0},
    {"debug-devel", 0},
    {"debugger", 1},
    {"default-hostfile", 1},
    {"disable-recovery", 0},
    {"display-allocation", 0},
    {"display-devel-allocation", 0},
    {"display-devel-map", 0},
    {"display-diffable-map", 0},
    {"display-map", 0},
    {"display-topo", 0},
    {"do-not-launch", 0},
    {"do-not-resolve", 0},
    {"dvm", 0},
    {"enable-instant-on-support", 0},
    {"enable-recovery", 0},
    {"fwd-mpirun-port", 0},
    {"get-stack-traces", 0},
    {"gmca", 2},
    {"h", 0},
    {"help", 0},
    {"hnp", 1},
    {"host", 1},
    {"hostfile", 1},
    {"index-argv-by-rank", 0},
    {"launch-agent", 1},
    {"leave-session-attached", 0},
    {"machinefile", 1},
    {"map-by", 1},
    {"max-restarts", 1},
    {"max-vm-size", 1},
    {"mca", 2},
    {"merge-stderr-to-stdout", 0},
    {"n", 1},
    {"nolocal", 0},
    {"nooversubscribe", 0},
    {"noprefix", 0},
    {"novm", 0},
    {"np", 1},
    {"npernode", 1},
    {"npersocket", 1},
    {"ompi-server", 1},
    {"output-filename", 1},
    {"output-proctable", 0},
    {"oversubscribe", 0},
    {"path", 1},
    {"pernode", 0},
    {"personality", 1},
    {"ppr", 1},
    {"prefix", 1},
    {"preload-binary", 0},
    {"preload-files", 1},
    {"q", 0},
    {"quiet", 0},
    {"rank-by", 1},
    {"rankfile", 1},
    {"report-bindings", 0},
    {"report-child-jobs-separately", 0},
    {"report-events", 1},
    {"report-pid", 1},
    {"report-state-on-timeout", 0},
    {"report-uri", 1},
    {"rf", 1},
    {"s", 0},
    {"set-cwd-to-session-dir", 0},
    {"show-progress", 0},
    {"stdin", 1},
    {"tag-output", 0},
    {"timeout", 1},
    {"timestamp-output", 0},
    {"tune", 1},
    {"tv", 0},
    {"use-hwthread-cpus", 0},
    {"use-regexp", 0},
    {"v", 0},
    {"verbose", 0},
    {"version", 0},
    {"wd", 1},
    {"wdir", 1},
    {"x", 1},
    {"xml", 0},
    {"xml-file", 1},
    {"xterm", 1},
});
static_assert(std::is_sorted(kMpirunOptions.begin(), kMpirunOptions.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));

}  // namespace

std::optional<int> mpirun_option_values(std::string_view name) {
  const auto* found = std::lower_bound(
      kMpirunOptions.begin(), kMpirunOptions.end(), name,
      [](const MpirunOption& option, std::string_view wanted) { return option.name < wanted; });
  if (found == kMpirunOptions.end() || found->name != name) return std::nullopt;
  return found->values;
}

}  // namespace cohort::jobspec
