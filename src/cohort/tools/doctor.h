#pragma once

#include <string>
#include <vector>

namespace cohort::tools {

// `cohort doctor [--json]`: checks this machine and says what is wrong and how to mend it. Returns
// 1 when something keeps jobs from running, else 0. Throws InvalidInput.
int doctor_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
