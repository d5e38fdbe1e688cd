#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cohort/engine/engine.h"
#include "cohort/jobspec/resolved_job.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Both clocks at one instant. Durations are measured with `steady`; `utc` is for people, and for
// what must be understood after a restart.
struct Instant {
  std::int64_t steady = 0;  // milliseconds; never steps back while the machine runs
  Millis utc = 0;
  std::string boot = {};  // which start of the machine `steady` counts from

  static Instant now();  // the first call may throw SystemError
};

using Engines = std::map<std::string, std::unique_ptr<engine::Engine>, std::less<>>;

struct ManagerOptions {
  RunFolders folders;
  jobspec::Size machine;  // what jobs of engines with a queue may hold together
  // Where an attempt's program lies: the unpacked source of this SHA-256, made if need be. Nothing:
  // it is being made, and is asked for again.
  std::function<std::optional<std::filesystem::path>(const std::string& sha256)> find_source;
  std::function<void()> before_change;  // called before each change of store or engine, by tests
};

}  // namespace cohort::service
