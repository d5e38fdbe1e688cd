#pragma once

#include <filesystem>
#include <memory>

#include "cohort/ps/state/server_state.h"

namespace cohort::ps {

// The state that a server's folder (disk_log.h) holds, made in `memory_file`; nothing where the
// folder has none.
//
// Takes the newest snapshot that passes its checks (a damaged one is renamed, with a warning) and
// makes every update again that the logs from there on hold; those that are in already are skipped.
// The last log may end in a record that is cut off or damaged: it is truncated there, with a
// warning that says how many bytes were dropped.
// Failure: Error, with file, place and what can be done, where a log is damaged with good records
// behind, a log is missing, or no snapshot is whole: nothing is skipped silently. InvalidInput when
// the folder is another server's, in use, or of another number of servers.
std::unique_ptr<ServerState> recover_from_disk(const std::filesystem::path& folder, int memory_file,
                                               ServerState::Options options);

}  // namespace cohort::ps
