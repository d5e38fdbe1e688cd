#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

// The folder in which a parameter server keeps its log and snapshots:
//
//   lock                     held by the process that uses the folder
//   log-00000007.wal         what happened after snapshot 7, or after log 6
//   snapshot-00000007.image  the state when log 7 began
//   *.tmp, *.damaged         a snapshot being written; one that failed its checks
namespace cohort::ps {

struct LogFolderContents {
  std::vector<std::uint64_t> logs;       // ascending
  std::vector<std::uint64_t> snapshots;  // ascending
};

std::filesystem::path log_path(const std::filesystem::path& folder, std::uint64_t number);
std::filesystem::path snapshot_path(const std::filesystem::path& folder, std::uint64_t number);

LogFolderContents list_log_folder(const std::filesystem::path& folder);

// Makes the folder where there is none, and keeps every other process out for as long as the object
// lives. Throws InvalidInput that names the folder: it cannot be made or written, or another
// process uses it.
class LogFolderLock {
 public:
  explicit LogFolderLock(const std::filesystem::path& folder);

 private:
  UniqueFd file_;
};

// Names in the folder (files made, renamed) survive from here on. Throws SystemError.
void sync_folder(const std::filesystem::path& folder);

// Everything that recovery from either of the two newest snapshots does not need; those must be
// durable. What cannot be deleted is logged.
void clean_log_folder(const std::filesystem::path& folder);

}  // namespace cohort::ps
