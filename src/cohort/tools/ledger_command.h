#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

struct LedgerArguments {
  std::string what;  // verify or show
  std::string job;   // or the ledger's file
  std::int64_t epoch = -1;
  bool json = false;
  bool csv = false;
};

// Declares the options of `cohort ledger`; `arguments` must outlive `app`.
void declare_ledger_options(CLI::App& app, LedgerArguments& arguments);

// Carries out `cohort ledger verify|show JOB|FILE`. Returns 0, and 1 when the ledger does not prove
// that each sample of each ended epoch entered exactly one committed update. Throws InvalidInput.
int ledger_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
