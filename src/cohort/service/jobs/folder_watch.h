#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::service {

// Tells which of some attempts' folders have changed: a file was replaced in them or in one of
// their folders (launchers write job.json so), or a folder was made. It may miss changes, where
// the system allows no more watches: look at the folders every now and then, too.
//
// Confined to one thread. The constructor throws SystemError.
class FolderWatch {
 public:
  FolderWatch();

  int fd() const { return fd_.get(); }  // readable: there are changes
  void add(const std::string& key, const std::filesystem::path& folder);
  void remove(const std::string& key);
  std::vector<std::string> changed();  // keys, each once, since the last call; never waits

 private:
  struct Watched {
    std::string key;
    std::filesystem::path folder;
  };
  void watch(const std::string& key, const std::filesystem::path& folder);

  UniqueFd fd_;
  std::map<int, Watched> watched_;  // by watch descriptor
};

}  // namespace cohort::service
