#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Unpacks sources on a thread of its own, one after the other: a large one takes many seconds, in
// which the job manager has other jobs to see to.
//
// Threads: find() from one. The destructor waits for the source that is being unpacked.
class SourceUnpacking {
 public:
  explicit SourceUnpacking(RunFolders folders);
  ~SourceUnpacking();
  SourceUnpacking(const SourceUnpacking&) = delete;
  SourceUnpacking& operator=(const SourceUnpacking&) = delete;

  // The folder of the unpacked source, in use from now on; waits for a small one. Nothing: it is
  // being unpacked, ask again. Throws what unpacking it did; asked again, it is tried again.
  std::optional<std::filesystem::path> find(const std::string& sha256);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::service
