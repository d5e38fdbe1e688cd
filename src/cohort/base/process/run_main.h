#pragma once

#include <functional>
#include <string_view>

namespace cohort {

// What main() returns: `body`'s result, 0 for a task that was Dismissed; after an exception 2 when
// the input was wrong (InvalidInput) and 1 otherwise, with the sentence on standard error:
// "<program>: <what happened>". A launcher learns the same, and whether another task was to blame
// (last_word.h).
int run_main(std::string_view program, const std::function<int()>& body) noexcept;

// What an exception says, without the trace of native frames that LibTorch puts behind it
// ("Exception raised from ..."). With COHORT_LOG=debug run_main() prints that, too.
std::string_view error_sentence(std::string_view what);

}  // namespace cohort
