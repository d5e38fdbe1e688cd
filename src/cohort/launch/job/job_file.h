#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort::launch {

// What a job file (TOML) asks for, as the arguments of `cohort run` that would ask for the same: so
// a file takes the keys of the command line, by construction, and the command line, parsed later,
// wins. `workers = 4` becomes {"--workers", "4"}; `_` and `-` are alike in keys; a table `env`
// gives one --env a key; an array gives its option once an element; true gives a bare
// flag, false --flag=false.
struct JobFile {
  std::vector<std::string> arguments;
  std::vector<std::string> program;  // the key `program`: an array, or text without spaces
};

// `known` are the long option names, without dashes. Throws InvalidInput that names the file and
// the line: a file that is not there, broken TOML, an unknown key (with the nearest known one).
JobFile read_job_file(const std::filesystem::path& path, const std::vector<std::string>& known);

}  // namespace cohort::launch
