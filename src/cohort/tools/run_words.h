#pragma once

#include <string>
#include <string_view>

#include "cohort/tools/command_line.h"

namespace cohort::tools {

// The words with which a job was asked for: OUTPUT/job-options.json keeps them, and `cohort resume`
// parses them again as `cohort run` did. A value.
struct RunWords {
  Words arguments;       // of the command line, before `--`
  Words program;         // what stood behind it, or the job file's
  std::string job_file;  // its path, for messages; "": there was none
  Words file_arguments;  // what it asked for, as words of the command line (run_file.h)

  bool operator==(const RunWords&) const = default;
};

std::string to_json(const RunWords& words);

// Throws InvalidInput for a text that this version did not write, such as the options that an
// earlier one kept; `source` is where it comes from, for messages.
RunWords run_words_from_json(std::string_view text, const std::string& source);

}  // namespace cohort::tools
