#pragma once

#include <filesystem>
#include <string_view>

#include "cohort/service/store/run_store.h"

// How a job goes away, row and files. No state; threads as the store.
namespace cohort::service {

enum class PinnedJobs { stay, go };

// Removes a job that has ended. False, and nothing happens, when there is none, when it has not
// ended (or was resumed meanwhile), or is pinned and is to stay.
//
// The folder is renamed and the row deleted in one transaction, then the files go. After a kill
// there is either a row whose folder is gone: call it again; or a folder without a row:
// finish_removals(). Throws SystemError where files cannot be removed; the row is gone then, too.
bool remove_ended_job(RunStore& store, const RunFolders& folders, std::string_view id,
                      PinnedJobs pinned);

// Removes what remove_ended_job() left behind when it was killed or failed.
void finish_removals(const RunFolders& folders);

// The folder or file with all below it, also where folders are read-only. Follows no symbolic
// links. Nothing there: nothing happens. Throws SystemError.
void remove_tree(const std::filesystem::path& path);

}  // namespace cohort::service
