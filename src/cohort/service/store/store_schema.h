#pragma once

#include <filesystem>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/service/store/sqlite.h"

// The tables of the run store, by version (PRAGMA user_version).
namespace cohort::service {

inline constexpr int kStoreVersion = 4;

// What a person does about a damaged file: how to go on with the newest backup, or without.
std::string damaged_advice(const std::filesystem::path& database);

// The file, open, with its tables as kStoreVersion has them. Migrations go step by step, each one
// transaction, after a copy of the file as FILE.backup-vN (N: the version it had). A new file gets
// all steps. A file that was not closed in order is checked first. A file of this version is
// copied, too, when its backup is more than a day old and there are jobs in it.
//
// The first user of a file does this under a lock; others wait for it, and all keep a share of it.
// Throws InvalidInput for a damaged file, or one of a newer version.
struct OpenStore {
  explicit OpenStore(const std::filesystem::path& path);

  Database database;
  UniqueFd in_use;
};

}  // namespace cohort::service
