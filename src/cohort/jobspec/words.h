#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"

// Words of command lines. Pure functions; nothing here is ever read by a shell.
namespace cohort::jobspec {

using Words = std::vector<std::string>;

// {"lr": 0.1, "layers": [64, 10], "amp": true} -> --lr 0.1 --layers [64,10] --amp true. Text as it
// is; lists and objects as compact JSON. Throws InvalidInput for null and for a name that is no
// option's (letters, digits, '_', '-', '.'; the first a letter or '_').
Words hyperparameter_words(const NamedJson& hyperparameters);

// {"workers": 4, "quiet": true, "hosts": ["a", "b"], "env": {"A": "1"}} -> --workers 4 --quiet
// --hosts a --hosts b --env A=1; false gives --quiet=false.
Words run_option_words(const NamedJson& run_options);

// As a shell splits a line without anything to expand: spaces part words, '...' and "..." keep them
// together, \ keeps the next character. Throws InvalidInput for a quote without an end.
Words split_words(std::string_view text);

// One line that a POSIX shell reads as these words.
std::string shell_text(const Words& words);

// `custom_mpi_options` as mpirun gets them: word by word; `--NAME VALUE` that mpirun does not know
// becomes `-x NAME=VALUE`, and `notes` says so.
struct MpiWords {
  Words words;
  std::vector<std::string> notes;
};
MpiWords mpi_option_words(std::string_view custom_options);

}  // namespace cohort::jobspec
