#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/service/jobs/fake_engine_test.h"
#include "cohort/service/jobs/job_manager.h"
#include "cohort/service/jobs/job_operations.h"

// Of the tests of the job manager.
namespace cohort::service {

using engine::AttemptState;

inline jobspec::JobSpec spec(const std::string& name, double cores) {
  jobspec::JobSpec spec;
  spec.name = name;
  spec.program = {"true"};
  spec.cores = cores;
  return spec;
}

inline jobspec::ResolvedJob resolved(const jobspec::JobSpec& spec) {
  jobspec::ResolvedJob job;
  job.spec = spec;
  job.program = spec.program;
  job.instance = {
      .cores = spec.cores.value_or(1), .memory_bytes = 1 << 20, .gpus = spec.gpus.value_or(0)};
  if (spec.elastic) job.instances = spec.elastic->least;
  return job;
}

// A service without its HTTP part: a machine of 8 cores, clocks that the test moves.
struct TestService {
  ScratchFolder scratch;
  RunFolders folders{scratch.path()};
  FakeWorld world;
  engine::Abilities abilities{.scales = true, .needs_queue = true};
  Instant now{.steady = 1000, .utc = 1'800'000'000'000};
  std::function<void()> before_change;
  std::optional<std::filesystem::path> source;  // none: it is being unpacked
  std::unique_ptr<JobManager> manager;
  JobOperations operations{folders, resolved, [this](std::string_view id) {
                             if (manager) manager->wake(id);
                           }};

  void restart() {
    JobManager::Engines engines;
    engines["local"] = std::make_unique<FakeEngine>(world, abilities);
    manager = std::make_unique<JobManager>(
        JobManager::Options{.folders = folders,
                            .machine = {.cores = 8, .memory_bytes = 1 << 30, .gpus = 2},
                            .find_source = [this](const std::string&) { return source; },
                            .before_change =
                                [this] {
                                  if (before_change) before_change();
                                }},
        std::move(engines));
  }
  TestService() { restart(); }

  // Rounds, `millis` later, until the manager has nothing to do at once.
  void settle(std::int64_t millis = 0) {
    now.steady += millis;
    now.utc += millis;
    for (int i = 0; i < 20; ++i)
      if (manager->pass(now) > now.steady) return;
    ADD_FAILURE() << "the manager never rests";
  }
  JobRow row(const std::string& id) { return *operations.store().find_job(id); }
  void set(const std::string& id, AttemptState state) { world.of(id).back()->status.state = state; }
  std::vector<std::string> events(const std::string& id) {
    std::vector<std::string> kinds;
    for (const auto& event : operations.store().events_after(0, id, "", 100))
      kinds.push_back(event.kind);
    return kinds;
  }
};

}  // namespace cohort::service
