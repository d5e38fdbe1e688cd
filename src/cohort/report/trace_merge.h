#pragma once

#include <filesystem>
#include <vector>

namespace cohort::report {

// Puts the traces of a job's ranks (trace-rankN.json) into one file, `out`, written in one step.
// Each rank's times are shifted by the clock offset that its file names, so that they are all of
// rank 0's clock, and then so that the earliest event is at 0. What each rank dropped is summed.
// Throws SystemError for a file that cannot be read or written, InvalidInput for one that is no
// trace of a rank, for two of the same rank, and for no file at all; `out` is then unchanged.
void merge_traces(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& out);

}  // namespace cohort::report
