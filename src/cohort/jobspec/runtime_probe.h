#pragma once

#include <string>
#include <string_view>

namespace cohort::jobspec {

// The version of a package that `python3` (of PATH) has, of Python itself for "python"; "" when
// there is none, or no Python that answers within 5 s. Asks once in a process, for all packages
// that it knows (tensorflow, torch, keras, horovod, mxnet), and keeps the answer.
//
// Threads: any; the first caller asks, the others wait for it.
std::string version_at_hand(std::string_view package);

// The same of the virtual environment in a folder, which is asked each time: packages come and go.
std::string version_in_venv(std::string_view package, const std::string& venv);

}  // namespace cohort::jobspec
