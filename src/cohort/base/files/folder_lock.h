#pragma once

#include <filesystem>
#include <optional>

#include "cohort/base/unique_fd.h"

// Who uses a folder: an exclusive flock() on the file `.lock` in it, which only its owner can open,
// so that another user can neither hold it nor wait for it. It goes with the process that took it.
// Functions without state, for any thread.
namespace cohort {

// Takes the lock; it is held as long as the descriptor is open. Nothing when another process has
// it. On a file system without locks it is granted: one user a folder is then the user's business.
// Throws InvalidInput when the file is another user's or no file, SystemError when it cannot be
// made.
std::optional<UniqueFd> lock_folder(const std::filesystem::path& folder);

// Whether a process has it now. False where there is no such folder. Throws as lock_folder().
bool is_folder_locked(const std::filesystem::path& folder);

}  // namespace cohort
