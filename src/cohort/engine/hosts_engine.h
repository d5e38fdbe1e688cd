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
  // `host_words`: options of `cohort run`, each followed by its value, that say which hosts there
  // are (--hosts, --hostfile) and how they are reached (--remote-shell ...). Each is for jobs that
  // do not give it themselves; hosts, for those that name none in any way.
  explicit HostsEngine(std::vector<std::string> host_words = {}, std::filesystem::path cohort = {});

  std::string_view name() const override { return "hosts"; }
  Abilities abilities() const override { return {.scales = true, .images = true}; }
  // Only whether there are hosts: what lies on them is asked when the attempt begins.
  void check(const jobspec::ResolvedJob& job, const std::filesystem::path& source) const override;
  void submit(const AttemptRequest& request) override;

 private:
  std::vector<std::string> host_words_;
};

}  // namespace cohort::engine
