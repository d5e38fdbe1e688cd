#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort::launch {

// A file of this name in a run's folder keeps it: touch cohort-output/JOB/pinned
inline constexpr const char* kPinned = "pinned";
inline constexpr std::chrono::hours kKeptTime{7 * 24};

// Removes old runs from `parent`, the folder in which jobs without --output have theirs: all but
// the newest `runs` and those that ended (or were last heard of) within `time`. Newest first by
// their job.json. Returns their names, the oldest first.
//
// A folder is removed only when it is a run's, made by a launcher of this user, and over: itself no
// symbolic link and owned by the caller, with a job.json that names the folder's own job, without
// `pinned`, and not locked by a launcher (OutputFolder). And only when it holds nothing but what
// Cohort writes about a run: logs, records, metrics, traces. Checkpoints and whatever else a
// program put there are its results, and stay.
//
// Several launchers may do so at once. What cannot be removed is left; nothing is thrown.
std::vector<std::string> remove_old_runs(
    const std::filesystem::path& parent, int runs, std::chrono::seconds time = kKeptTime,
    std::filesystem::file_time_type now = std::filesystem::file_time_type::clock::now());

}  // namespace cohort::launch
