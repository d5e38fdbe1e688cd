#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "cohort/service/store/run_store.h"

// Sources on disk: ROOT/sources/SHA256.tar.gz, as it was sent, and ROOT/sources/SHA256, the same
// unpacked. When one was last in use is the time of its file or folder: who finds one sets it, so
// that a source which a client was told of is still there when it submits the job.
//
// No state; any thread and process. What is removed gets another name first: who looks finds the
// whole of a source or none.
namespace cohort::service {

std::filesystem::path source_file(const RunFolders& folders, const std::string& sha256);

// Whether the packed source is there. It is in use from now on.
bool use_source(const RunFolders& folders, const std::string& sha256);

// The folder of the unpacked source, made if need be, in use from now on. Throws what
// jobspec::unpack_source() throws.
std::filesystem::path unpacked_source(const RunFolders& folders, const std::string& sha256);

// Sets those in `used` to in use at `now`; removes those that were in use before `since` only, and
// what unpacking left a day ago when it was killed. How many files and folders of sources went;
// what cannot be removed is logged.
int remove_unused_sources(const RunFolders& folders, const std::set<std::string>& used, Millis now,
                          Millis since);

}  // namespace cohort::service
