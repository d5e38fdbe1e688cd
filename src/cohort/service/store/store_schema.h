#pragma once

#include <filesystem>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/service/store/sqlite.h"

// The tables of the run store, by version (PRAGMA user_version).
namespace cohort::service {

inline constexpr int kStoreVersion = 2;

// What a person does about a damaged file: how to go on with the newest backup, or without.
std::string damaged_advice(const std::filesystem::path& database);

// Brings the file to kStoreVersion, step by step, each step one transaction, after a copy of the
// file as FILE.backup-vN (N: the version it had). A new file gets all steps. A file that was not
// closed in order is checked first. A file of this version is copied, too, when its backup is more
// than a day old and there are jobs in it.
//
// Returns a lock that says that the file is in use, to be held as long as `database`: checks and
// migrations are for the first user alone, and others wait for it.
// Throws InvalidInput for a damaged file, or one of a newer version.
UniqueFd open_schema(Database& database);

}  // namespace cohort::service
