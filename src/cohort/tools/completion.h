#pragma once

#include <string>
#include <vector>

namespace cohort::tools {

// `cohort completion bash|zsh|fish`: prints a script that completes commands and options, made from
// the declared options themselves. Throws InvalidInput.
int completion_command(const std::vector<std::string>& words,
                       const std::vector<std::string>& behind);

}  // namespace cohort::tools
