#pragma once

#include <filesystem>
#include <string_view>

#include "cohort/service/store/run_store.h"

// How a job goes away, row and files. No state; threads as the store.
namespace cohort::service {

enum class PinnedJobs { stay, go };

// Removes the row of a job that has ended, and gives its folder another name, which is returned.
// Nothing, and nothing happens, when there is none, when it has not ended (or was resumed
// meanwhile), or is pinned and is to stay.
//
// The folder is renamed and the row deleted in one transaction; on a full disk the files go first,
// so that there is room for the deletion of the row. After a kill there is either a row whose folder
// is gone: call it again; or a folder without a row: finish_removals(). Throws SystemError where
// the folder cannot be renamed.
std::optional<std::filesystem::path> take_away(RunStore& store, const RunFolders& folders,
                                               std::string_view id, PinnedJobs pinned);

// The same, and the files go: false where take_away() did nothing. Throws SystemError where they
// cannot be removed; the row is gone then, too.
bool remove_ended_job(RunStore& store, const RunFolders& folders, std::string_view id,
                      PinnedJobs pinned);

// What a file or folder is called, beside its place, once it is to be removed.
std::filesystem::path removed_name(const std::filesystem::path& path);

// Removes what has such a name: the remover was killed, or failed.
void finish_removals(const RunFolders& folders);

}  // namespace cohort::service
