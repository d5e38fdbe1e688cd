#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/job/hosts.h"
#include "cohort/launch/output/program_run.h"

namespace cohort::launch {

// What a discovery script printed: `host` or `host:slots` a line, as for Horovod; blank lines and
// '#' comments are skipped, a line that is there twice counts once. Every host of the result has
// its slots. Throws InvalidInput that names the line, also where a host is named again with other
// slots.
std::vector<Host> parse_discovered_hosts(std::string_view text, int slots_per_host);

// `hosts` as they are, with `slots_per_host` where none are given.
std::vector<Host> with_slots(std::vector<Host> hosts, int slots_per_host);

struct HostDiscoveryOptions {
  std::filesystem::path script;  // empty: `hosts` are all there will ever be
  std::vector<Host> hosts;
  int slots_per_host = 1;  // where a host has no number of its own
  // Of the script. With COHORT_JOB in it, the guard of a killed launcher finds the script.
  cluster::Environment environment;
  std::chrono::milliseconds period{1000};
  std::chrono::milliseconds limit{10'000};  // of one run
};

// Which hosts there are, as a script tells again and again, or a fixed list once. Calls back, from
// the loop, with the first list and whenever it has changed (another order is no change). Hosts of
// the list have their slots. While the script fails the last good list holds; one warning says how
// it failed, one line when it answers again. No host at all is an answer like any other.
//
// Confined to the loop's thread; `loop` must outlive it. Destroying it, also from the callback,
// ends a script that runs.
class HostDiscovery {
 public:
  using Callback = std::function<void(const std::vector<Host>&)>;

  // Throws InvalidInput when the script cannot be executed.
  HostDiscovery(HostDiscoveryOptions options, EventLoop& loop, Callback changed);
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;
  ~HostDiscovery();

  // The script's process while it runs, -1 otherwise: for reap_orphans(), which must leave it.
  pid_t pid() const { return run_ ? run_->pid() : -1; }

 private:
  void run_script();
  void on_result(const ProgramRun::Result& result);
  void on_failure(const std::string& how);
  void tell(std::vector<Host> hosts);

  HostDiscoveryOptions options_;
  EventLoop& loop_;
  Callback changed_;
  std::unique_ptr<ProgramRun> run_;
  EventLoop::TimerId timer_ = 0;
  EventLoop::Clock::time_point next_run_;
  std::optional<std::vector<Host>> last_;  // sorted
  bool failing_ = false;
};

}  // namespace cohort::launch
