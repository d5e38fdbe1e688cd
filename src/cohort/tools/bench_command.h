#pragma once

#include <string>
#include <vector>

namespace cohort::tools {

// `cohort bench collective [-n N] [--max-bytes B] [--type f32|bf16]`: how fast this machine adds up
// buffers between N processes. Starts itself N times through the launcher; the rank that it then is
// measures, checks every result, and rank 0 prints a table. Returns the exit code. Throws
// InvalidInput.
int bench_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
