#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace cohort::cluster {

// A folder of the test's own, gone with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    char name[] = "/tmp/cohort-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~ScratchFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cohort::cluster
