#pragma once

#include <functional>

namespace cohort::parallel {

// Runs `body`. An error that says that another worker is missing, or that it called something else,
// leaves with the call of the program added to the collective that noticed it: "during all_reduce
// #17, in evaluate(), which every worker must call". Every other error leaves as it came.
void named_call(const char* call, const std::function<void()>& body);

}  // namespace cohort::parallel
