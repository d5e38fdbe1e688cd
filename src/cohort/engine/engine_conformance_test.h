#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/engine/engine.h"

// What every engine must do, as tests: an engine's own test file lists its EngineUnderTest in an
// INSTANTIATE_TEST_SUITE_P(Name, EngineConformance, ...).
namespace cohort::engine {

struct EngineUnderTest {
  std::string name;  // letters
  // A new engine, as another process of the service would have it; it may write into the folder.
  std::function<std::unique_ptr<Engine>(const ScratchFolder& scratch)> make;
  // Options of `cohort run` that an elastic job needs under it.
  std::vector<std::string> elastic_words;
  // Kills whatever supervises the attempt, as a crash of its machine would.
  std::function<void(const std::filesystem::path& folder)> kill_supervisor;
  // Why it cannot be tried on this machine; "" when it can.
  std::function<std::string()> missing = [] { return std::string(); };
  // How many submitting processes are killed.
  int killed_submits = 50;
  // Whether it looks for program and data before a task starts; else a task does.
  bool looks_first = true;
  // Points `output` and `model` to where this machine sees what the attempt writes.
  std::function<void(AttemptRequest& request)> see_results = [](AttemptRequest&) {};
};

class EngineConformance : public ::testing::TestWithParam<EngineUnderTest> {
 protected:
  void SetUp() override;
  // Stops what still runs.
  ~EngineConformance() override;

  // An attempt of a job of its own, with one task.
  AttemptRequest source_job(const std::map<std::string, std::string>& files,
                            const std::vector<std::string>& program);
  AttemptRequest shell_job(const std::string& script) {
    return source_job({{"main.sh", script + "\n"}}, {"main.sh"});
  }
  AttemptRequest new_attempt();

  Engine& engine() { return *engine_; }
  std::unique_ptr<Engine> another_engine() const { return GetParam().make(scratch_); }

  // Waits, and says what was seen last when it waits in vain.
  AttemptStatus wait_for(const AttemptRequest& request, AttemptState state);
  AttemptStatus wait_for_end(const AttemptRequest& request);
  void wait_for_log(const AttemptRequest& request, const std::string& task,
                    const std::string& text);
  // All of a task's log, read in portions of `most_bytes`, until its end.
  std::string whole_log(const AttemptRequest& request, const std::string& task,
                        std::size_t most_bytes = 1 << 20);

  ScratchFolder scratch_;
  std::filesystem::path jobs_ = scratch_ / "jobs";

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<AttemptRequest> requests_;
};

}  // namespace cohort::engine
