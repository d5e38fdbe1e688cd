#pragma once

#include <string>

namespace cohort::membership {

// Where two agreements (JSON objects that all workers of a job must have alike) differ, for people:
// "'batch' is 64 here, but 32 elsewhere; ...". Nested keys are joined by dots. Texts that are no
// JSON are shown as they are. Empty: they are the same.
std::string describe_difference(const std::string& here, const std::string& elsewhere);

}  // namespace cohort::membership
