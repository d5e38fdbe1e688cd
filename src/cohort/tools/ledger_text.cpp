#include "cohort/tools/ledger_text.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

using membership::Ledger;
using membership::LedgerReport;
using nlohmann::ordered_json;

std::string why_redone(const std::vector<const Ledger::Entry*>& records, const Ledger& ledger) {
  const int before = records.front()->generation, after = records.back()->generation;
  if (after > before && static_cast<std::size_t>(after) <= ledger.rewinds.size())
    return fmt::format("the training went on from step {}",
                       ledger.rewinds[static_cast<std::size_t>(after) - 1]);
  std::set<std::uint64_t> views;
  for (const auto* entry : records) views.insert(entry->record.view);
  std::vector<std::string> words;
  for (std::uint64_t view : views) words.push_back(fmt::format("in view {}", view));
  return join(words, ", then ");
}

std::string range(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

const char* outcome_of(const LedgerReport::Epoch& epoch) {
  if (epoch.missing > 0 || epoch.repeated > 0) return "no";
  return epoch.ended ? "yes" : "so far; not ended";
}

std::string plan_line(const membership::LedgerPlan& plan) {
  return fmt::format("{} samples an epoch, {} a step in {} {}, seed {}{}\n", plan.samples,
                     plan.batch, plan.shards, plan.shards == 1 ? "shard" : "shards", plan.seed,
                     plan.shuffle ? ", shuffled" : "");
}

}  // namespace

std::vector<RedoneSteps> redone_steps(const Ledger& ledger) {
  std::map<std::int64_t, std::vector<const Ledger::Entry*>> by_step;
  for (const auto& entry : ledger.entries) by_step[entry.record.step].push_back(&entry);
  std::vector<RedoneSteps> result;
  for (const auto& [step, records] : by_step) {
    if (records.size() < 2) continue;
    std::string why = why_redone(records, ledger);
    if (!result.empty() && result.back().last == step - 1 && result.back().why == why)
      result.back().last = step;
    else
      result.push_back({step, step, std::move(why)});
  }
  return result;
}

std::string verify_text(const Ledger& ledger, const LedgerReport& report) {
  std::string text = plan_line(ledger.plan);
  text += fmt::format("{:>8} {:>10} {:>14}  {}\n", "epoch", "steps", "samples", "exactly once");
  std::int64_t ended = 0;
  for (const auto& epoch : report.epochs) {
    text += fmt::format("{:>8} {:>10} {:>14}  {}\n", epoch.epoch, epoch.steps, epoch.samples,
                        outcome_of(epoch));
    ended += epoch.ended ? 1 : 0;
  }
  for (const auto& redone : redone_steps(ledger))
    text += fmt::format("done again: {}: {}\n", range(redone.first, redone.last), redone.why);
  if (ledger.torn) text += "the last record was not whole; it does not count\n";
  for (const auto& problem : report.problems) text += fmt::format("problem: {}\n", problem);
  if (!report.problems.empty())
    text += "not proven\n";
  else
    text += fmt::format("proven: every sample of {} entered exactly one committed update ({} {})\n",
                        ended == 1 ? "1 ended epoch" : fmt::format("{} ended epochs", ended),
                        report.views, report.views == 1 ? "view" : "views");
  return text;
}

std::string verify_json(const Ledger& ledger, const LedgerReport& report) {
  ordered_json json{{"proven", report.problems.empty()},
                    {"samples", ledger.plan.samples},
                    {"batch", ledger.plan.batch},
                    {"shards", ledger.plan.shards},
                    {"seed", ledger.plan.seed},
                    {"shuffle", ledger.plan.shuffle},
                    {"views", report.views},
                    {"torn", ledger.torn},
                    {"resumed_from", ledger.rewinds},
                    {"epochs", ordered_json::array()},
                    {"redone", ordered_json::array()},
                    {"problems", report.problems}};
  for (const auto& epoch : report.epochs)
    json["epochs"].push_back({{"epoch", epoch.epoch},
                              {"steps", epoch.steps},
                              {"samples", epoch.samples},
                              {"missing", epoch.missing},
                              {"repeated", epoch.repeated},
                              {"ended", epoch.ended}});
  for (const auto& redone : redone_steps(ledger))
    json["redone"].push_back({{"first", redone.first}, {"last", redone.last}, {"why", redone.why}});
  return json.dump(2) + "\n";
}

std::string show_text(const Ledger& ledger, std::optional<std::int64_t> epoch, ShowFormat format) {
  const bool csv = format == ShowFormat::csv;
  std::string text = csv ? std::string("epoch,step,shard,first,end,view,owner,generation\n")
                         : fmt::format("{:>8} {:>10} {:>6} {:>24} {:>8} {:>6} {:>11}\n", "epoch",
                                       "step", "shard", "samples", "view", "owner", "generation");
  for (const auto& [record, generation] : ledger.entries) {
    if (epoch && record.epoch != *epoch) continue;
    std::int64_t first = record.first;
    for (std::size_t shard = 0; shard < record.counts.size(); ++shard) {
      const std::int64_t end = first + record.counts[shard];
      if (csv)
        text += fmt::format("{},{},{},{},{},{},{},{}\n", record.epoch, record.step, shard, first,
                            end, record.view, record.owners[shard], generation);
      else
        text += fmt::format("{:>8} {:>10} {:>6} {:>24} {:>8} {:>6} {:>11}\n", record.epoch,
                            record.step, shard, fmt::format("[{}, {})", first, end), record.view,
                            record.owners[shard], generation);
      first = end;
    }
  }
  return text;
}

}  // namespace cohort::tools
