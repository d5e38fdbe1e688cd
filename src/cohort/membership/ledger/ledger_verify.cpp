#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "cohort/membership/ledger/ledger.h"

// Vocabulary: a place is a sample's number in its epoch's order; an update takes places
// [first, first + sum of counts). Updates that count are found first, then laid side by side.
namespace cohort::membership {
namespace {

constexpr std::size_t kMaxSentences = 50;

class Problems {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (++count_ <= kMaxSentences)
      sentences_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  std::vector<std::string> take() {
    if (count_ > kMaxSentences)
      sentences_.push_back(fmt::format("and {} more", count_ - kMaxSentences));
    return std::move(sentences_);
  }

 private:
  std::vector<std::string> sentences_;
  std::size_t count_ = 0;
};

std::int64_t end_of(const LedgerRecord& record) {
  return std::accumulate(record.counts.begin(), record.counts.end(), record.first);
}

// Which entries training has gone back behind since.
std::vector<bool> find_lost(const Ledger& ledger) {
  // By generation: the earliest step from which a later one went on.
  std::vector<std::int64_t> earliest(ledger.rewinds.size() + 1,
                                     std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = ledger.rewinds.size(); i-- > 0;)
    earliest[i] = std::min(earliest[i + 1], ledger.rewinds[i]);
  std::vector<bool> lost(ledger.entries.size());
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const Ledger::Entry& entry = ledger.entries[i];
    lost[i] = entry.record.step >= earliest[static_cast<std::size_t>(entry.generation)];
  }
  return lost;
}

// The updates that count, by step.
std::vector<const Ledger::Entry*> find_counting(const Ledger& ledger, LedgerReport& report,
                                                Problems& problems) {
  std::vector<bool> lost = find_lost(ledger);
  std::vector<std::size_t> order(ledger.entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto key = [&](std::size_t i) {
    const Ledger::Entry& entry = ledger.entries[i];
    return std::tuple(entry.record.step, entry.generation, entry.record.view, i);
  };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });

  std::vector<const Ledger::Entry*> counting;
  std::uint64_t newest_view = 0;
  int generation = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    const Ledger::Entry* last = &ledger.entries[order[begin]];
    bool is_lost = lost[order[begin]];
    bool redone = false;
    std::size_t end = begin + 1;
    for (; end < order.size(); ++end) {
      const Ledger::Entry* next = &ledger.entries[order[end]];
      if (next->record.step != last->record.step) break;
      bool same_view =
          next->generation == last->generation && next->record.view == last->record.view;
      if (same_view && next->record != last->record)
        problems.add("step {} has two records of view {} that differ", next->record.step,
                     next->record.view);
      redone |= !same_view;
      last = next;
      is_lost = lost[order[end]];
    }
    begin = end;
    if (redone) report.redone.push_back(last->record.step);
    if (is_lost) continue;
    if (last->generation != generation) newest_view = 0;
    generation = last->generation;
    // A later view has made a step before this one, and so makes this one, too.
    if (last->record.view < newest_view) continue;
    newest_view = last->record.view;
    counting.push_back(last);
  }
  return counting;
}

void check_record(const LedgerPlan& plan, const LedgerRecord& record, Problems& problems) {
  std::int64_t samples = end_of(record) - record.first;
  if (samples > plan.batch)
    problems.add("step {} took {} samples, but a batch has {}", record.step, samples, plan.batch);
  if (record.first < 0 || end_of(record) > plan.used_samples())
    problems.add("step {} took samples [{}, {}) of epoch {}, which has {}", record.step,
                 record.first, end_of(record), record.epoch, plan.used_samples());
}

std::string describe_steps(std::int64_t first, std::int64_t end) {
  if (end - first == 1) return fmt::format("step {}", first);
  return fmt::format("steps {} to {}", first, end - 1);
}

// Whether each update begins where the one before it ended.
void check_order(const LedgerPlan& plan, const std::vector<const Ledger::Entry*>& counting,
                 Problems& problems) {
  LedgerRecord before;  // before the first step: the end of an epoch -1
  before.step = -1;
  before.epoch = -1;
  before.first = plan.used_samples();
  for (const Ledger::Entry* entry : counting) {
    const LedgerRecord& record = entry->record;
    check_record(plan, record, problems);
    bool follows = record.step == before.step + 1;
    bool same_epoch = record.epoch == before.epoch;
    if (!follows)
      problems.add("there is no record of {}", describe_steps(before.step + 1, record.step));
    else if (!same_epoch && record.epoch != before.epoch + 1)
      problems.add("step {} is of epoch {}, but the step before it of epoch {}", record.step,
                   record.epoch, before.epoch);
    std::int64_t due = same_epoch ? end_of(before) : 0;
    if (record.first < due)
      problems.add("epoch {}: step {} begins at sample {}, but the step before it ended at {}",
                   record.epoch, record.step, record.first, due);
    else if (follows && record.first > due)
      problems.add("epoch {}: samples [{}, {}) entered no update before step {}", record.epoch, due,
                   record.first, record.step);
    before = record;
  }
}

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

LedgerReport::Epoch tally(const LedgerPlan& plan, const std::vector<Range>& ranges) {
  std::map<std::int64_t, int> changes = {{0, 0}, {plan.used_samples(), 0}};
  for (Range range : ranges) {
    ++changes[range.begin];
    --changes[range.end];
  }
  LedgerReport::Epoch epoch;
  epoch.steps = static_cast<std::int64_t>(ranges.size());
  int depth = 0;
  for (auto change = changes.begin(); std::next(change) != changes.end(); ++change) {
    depth += change->second;
    std::int64_t samples = std::next(change)->first - change->first;
    (depth == 0 ? epoch.missing : depth == 1 ? epoch.samples : epoch.repeated) += samples;
  }
  epoch.ended = std::any_of(ranges.begin(), ranges.end(),
                            [&](Range range) { return range.end >= plan.used_samples(); });
  return epoch;
}

void check_epochs(const LedgerPlan& plan, const std::vector<const Ledger::Entry*>& counting,
                  LedgerReport& report, Problems& problems) {
  std::map<std::int64_t, std::vector<Range>> ranges;
  for (const Ledger::Entry* entry : counting)
    ranges[entry->record.epoch].push_back({entry->record.first, end_of(entry->record)});
  std::int64_t due = 0;
  for (const auto& [number, taken] : ranges) {
    if (number > due) problems.add("there is no record of epochs {} to {}", due, number - 1);
    due = number + 1;
    LedgerReport::Epoch epoch = tally(plan, taken);
    epoch.epoch = number;
    epoch.ended |= number != ranges.rbegin()->first;
    if (!epoch.ended) epoch.missing = 0;
    if (epoch.missing > 0)
      problems.add("epoch {}: {} of {} samples entered no update", number, epoch.missing,
                   plan.used_samples());
    if (epoch.repeated > 0)
      problems.add("epoch {}: {} of {} samples entered more than one update", number,
                   epoch.repeated, plan.used_samples());
    report.epochs.push_back(epoch);
  }
}

}  // namespace

LedgerReport verify(const Ledger& ledger) {
  LedgerReport report;
  Problems problems;
  auto counting = find_counting(ledger, report, problems);
  check_order(ledger.plan, counting, problems);
  check_epochs(ledger.plan, counting, report, problems);
  // One write() makes one record: a kill leaves a part of one. What a lost disk or another hand
  // made of more is not known.
  if (ledger.unreadable > 0)
    problems.add("{} at the end {} not match {} checksum: what {} said is not known",
                 ledger.unreadable == 1 ? std::string("a record")
                                        : fmt::format("{} records", ledger.unreadable),
                 ledger.unreadable == 1 ? "does" : "do", ledger.unreadable == 1 ? "its" : "their",
                 ledger.unreadable == 1 ? "it" : "they");
  std::set<std::pair<int, std::uint64_t>> views;
  for (const Ledger::Entry& entry : ledger.entries)
    views.emplace(entry.generation, entry.record.view);
  report.views = views.size();
  report.problems = problems.take();
  return report;
}

}  // namespace cohort::membership
