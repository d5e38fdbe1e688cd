#pragma once

#include <string>
#include <vector>

#include "cohort/engine/local_engine.h"

namespace cohort::engine {

// Runs attempts on other hosts through the launcher's remote shell. The supervisor is on this
// machine, as LocalEngine's; before anything starts it puts the source on every host, once by hash,
// and asks each what it lacks (host_staging.h).
class HostsEngine : public LocalEngine {
 public:
  // `host_words`: options of `cohort run` that say which hosts there are and how they are reached
  // (--hosts, --hostfile, --remote-shell ...), for jobs that name no hosts themselves.
  explicit HostsEngine(std::vector<std::string> host_words = {}, std::filesystem::path cohort = {});

  std::string_view name() const override { return "hosts"; }
  Abilities abilities() const override { return {.scales = true}; }
  // Only whether there are hosts: what lies on them is asked when the attempt begins.
  void check(const jobspec::ResolvedJob& job) const override;
  void submit(const AttemptRequest& request) override;

 private:
  std::vector<std::string> host_words_;
};

}  // namespace cohort::engine
