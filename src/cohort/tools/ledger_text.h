#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/membership/ledger/ledger.h"

// What `cohort ledger` prints. Pure functions.
namespace cohort::tools {

// Steps in a row that were done more than once, for the same reason.
struct RedoneSteps {
  std::int64_t first = 0, last = 0;
  std::string why;  // "in view 3, then in view 4", "the training went on from step 100"
};
std::vector<RedoneSteps> redone_steps(const membership::Ledger& ledger);

std::string verify_text(const membership::Ledger& ledger, const membership::LedgerReport& report);
std::string verify_json(const membership::Ledger& ledger, const membership::LedgerReport& report);

// One line for each shard of each committed update, as it was written: epoch, step, shard, samples
// [first, end), view, owner, generation.
enum class ShowFormat { table, csv };
std::string show_text(const membership::Ledger& ledger, std::optional<std::int64_t> epoch,
                      ShowFormat format);

}  // namespace cohort::tools
