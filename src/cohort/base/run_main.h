#pragma once

#include <functional>
#include <string_view>

namespace cohort {

// What main() returns: `body`'s result, 0 for a task that was Dismissed; after an exception 2 when
// the input was wrong (InvalidInput) and 1 otherwise, with the sentence on standard error:
// "<program>: <what happened>".
int run_main(std::string_view program, const std::function<int()>& body) noexcept;

}  // namespace cohort
