#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"

namespace cohort::tools {

// Jobs that differ in a number only, as Slurm writes them: "0-9", "1,3,7", "0-15:4", "0-9%2". Each
// element is a job of its own: it has its place in the queue, state, logs, root cause and results,
// on every engine. A value.
struct JobArray {
  std::string text;          // as it was written
  std::vector<int> indices;  // in the order in which they were written
  int most_at_once = 0;      // behind %; 0: no limit
};

constexpr int kMostElements = 10'000;
constexpr int kMostArrayIndex = 1'000'000'000;

// Throws InvalidInput that names the text, the value in it and the range.
JobArray parse_array(std::string_view text);

// A number for COHORT_ARRAY_ID that no other array has.
std::string new_array_id();

// The job of the array's element at `place`: COHORT_ARRAY_INDEX and SLURM_ARRAY_TASK_ID tell its
// index, the tags array and array_index find it; a name ends with the index, and an output folder
// has a folder for it.
jobspec::JobSpec array_element(jobspec::JobSpec spec, const JobArray& array, std::size_t place,
                               const std::string& id);

}  // namespace cohort::tools
