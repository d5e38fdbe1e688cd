#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "cohort/engine/engine.h"

namespace cohort::engine {

// Runs attempts on this machine. Each has a supervisor, the process `cohort attempt FOLDER`, which
// runs the launcher: it has no parent, and outlives the process that submitted it. What is known of
// an attempt is in its folder (attempt_folder.h), so any number of these objects, in any processes,
// see and do the same.
//
// A claim in the folder makes a start happen once: a second supervisor of the same attempt ends at
// once and leaves no trace. When the folder of an attempt that this object has seen is
// removed, the attempt is lost, and its supervisor is told to stop.
class LocalEngine : public Engine {
 public:
  // `cohort`: the program that the supervisors run; empty: the one that runs now.
  explicit LocalEngine(std::filesystem::path cohort = {});

  std::string_view name() const override { return "local"; }
  Abilities abilities() const override {
    return {.scales = true, .needs_queue = true, .images = true};
  }
  // What the description names and this machine lacks, all of it at once; a program of the source
  // is looked for when the attempt begins.
  void check(const jobspec::ResolvedJob& job, const std::filesystem::path& source) const override;
  void submit(const AttemptRequest& request) override;
  AttemptStatus observe(const std::filesystem::path& folder) const override;
  LogChunk read_log(const std::filesystem::path& folder, std::string_view task,
                    std::uint64_t offset, std::size_t most_bytes) const override;
  void stop(const std::filesystem::path& folder) override;
  void scale(const std::filesystem::path& folder, int workers) override;
  std::vector<std::filesystem::path> list(const std::filesystem::path& jobs) const override;

 private:
  std::optional<std::string> owner_of(const std::filesystem::path& folder) const;
  bool ended_by_now(const std::filesystem::path& folder) const;

  std::filesystem::path cohort_;
  mutable std::mutex mutex_;
  // Who runs the attempts of these folders, until they have ended.
  mutable std::map<std::filesystem::path, std::string> seen_;
  // Whether attempts whose logs are read had ended, when that was looked at last.
  struct Look {
    std::chrono::steady_clock::time_point at;
    bool ended;
  };
  mutable std::map<std::filesystem::path, Look> looked_;
};

}  // namespace cohort::engine
