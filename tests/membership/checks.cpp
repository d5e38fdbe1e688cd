#include "checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::membership::simulator {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9u;
  return (z ^ (z >> 29)) * 0x94D049BB133111EBu;
}

std::uint64_t Checks::contribution(std::uint64_t state, std::int64_t stage, int shard) {
  return mix(mix(state, static_cast<std::uint64_t>(stage)), static_cast<std::uint64_t>(shard));
}

std::uint64_t Checks::after(std::uint64_t state, std::int64_t stage,
                            const std::vector<std::uint64_t>& contributions) {
  std::uint64_t hash = mix(state, static_cast<std::uint64_t>(stage));
  for (const std::uint64_t part : contributions) hash = mix(hash, part);
  return hash;
}

Checks::Checks(const CoordinatorOptions& options, int stages, int shards)
    : options_(options), states_{42}, last_commit_(static_cast<std::size_t>(stages), 0) {
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::uint64_t> parts;
    for (int shard = 0; shard < shards; ++shard)
      parts.push_back(contribution(states_.back(), stage, shard));
    states_.push_back(after(states_.back(), stage, parts));
  }
}

void Checks::committed(const Commit& commit) {
  const auto fail = [&](const std::string& what) {
    throw Violation(fmt::format("{} commits stage {} in view {}: {}", commit.member, commit.stage,
                                commit.view, what));
  };
  if (commit.view < newest_commit_view_)
    fail(fmt::format("view {} has committed before", newest_commit_view_));
  if (commit.oldest_active_view < commit.view)
    fail(fmt::format("a member may still commit in view {}", commit.oldest_active_view));
  if (evicted_.contains(commit.member)) fail("it was evicted before");
  if (commit.now >= commit.lease_end) fail("its lease has ended");
  const auto stage = static_cast<std::size_t>(commit.stage);
  if (commit.stage < 0 || stage >= last_commit_.size()) fail("there is no such stage");
  if (stage > 0 && last_commit_[stage - 1] == 0) fail("the stage before was skipped");
  if (commit.state != states_[stage + 1]) fail("its state is not that of the unfailed run");
  if (last_commit_[stage] != 0 && last_commit_[stage] < commit.view) ++redone_;
  last_commit_[stage] = commit.view;
  all_commits_.emplace(commit.stage, commit.view);
  newest_commit_view_ = commit.view;
  ++commits_;
}

void Checks::installed(const View& view) {
  const auto fail = [&](const std::string& what) {
    throw Violation(fmt::format("view {} is installed: {}", view.number, what));
  };
  if (view.number <= view_.number) fail(fmt::format("view {} was before", view_.number));
  if (view.size() < options_.least || view.size() > options_.most)
    fail(fmt::format("it has {} members", view.size()));
  bool newcomers = false;
  int before = -1;
  for (const ViewMember& member : view.members) {
    const int old = view_.rank_of(member.info.id());
    newcomers = newcomers || old < 0;
    if (newcomers ? old >= 0 : old <= before)
      fail(fmt::format("{} is out of order", member.info.id()));
    if (evicted_.contains(member.info.id())) fail(member.info.id() + " was evicted before");
    before = old;
  }
  view_ = view;
}

void Checks::entered(const std::string& process, std::uint64_t view) {
  std::uint64_t& last = entered_[process];
  if (view <= last)
    throw Violation(fmt::format("{} enters view {} after view {}", process, view, last));
  last = view;
}

void Checks::recorded(Record record) {
  if (!all_commits_.contains({record.stage, record.view}))
    throw Violation(fmt::format("the ledger has stage {} in view {}, which no member committed",
                                record.stage, record.view));
  ledger_.push_back(record);
}

bool Checks::has_record(Record record) const {
  return std::find(ledger_.rbegin(), ledger_.rend(), record) != ledger_.rend();
}

void Checks::check_ledger() const {
  std::vector<std::uint64_t> winner(last_commit_.size(), 0);
  for (const Record& record : ledger_) {
    std::uint64_t& view = winner[static_cast<std::size_t>(record.stage)];
    view = std::max(view, record.view);
  }
  for (std::size_t stage = 0; stage < winner.size(); ++stage)
    if (winner[stage] != last_commit_[stage])
      throw Violation(fmt::format("the ledger has stage {} in view {}, it was committed in view {}",
                                  stage, winner[stage], last_commit_[stage]));
}

}  // namespace cohort::membership::simulator
