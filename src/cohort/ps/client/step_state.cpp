#include "cohort/ps/client/step_state.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::ps {

void StepState::set_layout(std::shared_ptr<const ClientLayout> layout) {
  layout_ = std::move(layout);
  const std::size_t slices = layout_->slices.size();
  pushed_.resize(slices);
  answered_.resize(slices);
  version_.resize(slices);
  ready_.reserve(slices);
  servers_.resize(layout_->of_server.size());
  for (Server& server : servers_) server.tables.resize(layout_->spec.tables.size());
}

void StepState::begin(const StepStart& start) {
  COHORT_CHECK(!active_, "step {} begins before step {} was finished", start.sequence,
               begin_.sequence);
  active_ = true;
  ended_ = done_ = false;
  begin_.sequence = start.sequence;
  begin_.weight = start.weight;
  begin_.learning_rates = start.learning_rates;
  std::fill(pushed_.begin(), pushed_.end(), 0);
  std::fill(answered_.begin(), answered_.end(), 0);
  ready_.clear();
  dropped_ = 0;
  missing_ = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    server.pushed.clear();
    for (Rows& rows : server.tables) rows.pushed = rows.answered = false;
    server.missing = static_cast<int>(layout_->of_server[i].size() + server.tables.size());
    missing_ += server.missing;
  }
}

void StepState::push(int slice) {
  const Slice& of_slice = layout_->slices[static_cast<std::size_t>(slice)];
  char& pushed = pushed_[static_cast<std::size_t>(slice)];
  COHORT_CHECK(active_ && !ended_, "a push outside of a step");
  COHORT_CHECK(pushed == 0, "block {} is pushed twice in a step", of_slice.block);
  pushed = 1;
  of(of_slice.server).pushed.push_back(slice);
}

StepState::Rows& StepState::push_rows(int server, int table) {
  Rows& rows = of(server).tables[static_cast<std::size_t>(table)];
  COHORT_CHECK(active_ && !ended_, "rows are pushed outside of a step");
  COHORT_CHECK(!rows.pushed, "table {} is pushed twice in a step", table);
  rows.pushed = true;
  return rows;
}

std::vector<std::pair<int, int>> StepState::end(const StepEnd& end) {
  COHORT_CHECK(active_ && !ended_, "finish_step() without begin_step()");
  for (std::size_t slice = 0; slice < pushed_.size(); ++slice)
    if (!pushed_[slice])
      throw InvalidInput(
          fmt::format("block {} was not pushed in step {}", layout_->slices[slice].block,
                      begin_.sequence),
          {.advice = "Push every block once a step; zeros where it has no gradient."});
  std::vector<std::pair<int, int>> empty;
  for (std::size_t table = 0; table < layout_->spec.tables.size(); ++table)
    for (std::size_t server = 0; server < servers_.size(); ++server) {
      if (servers_[server].tables[table].pushed) continue;
      empty.emplace_back(static_cast<int>(server), static_cast<int>(table));
      push_rows(empty.back().first, empty.back().second)
          .bytes.assign(sizeof(std::uint64_t), std::byte{0});
    }
  end_ = end;
  end_.sequence = begin_.sequence;
  ended_ = true;
  return empty;
}

void StepState::take_ready(std::vector<int>& slices) {
  slices.clear();
  slices.swap(ready_);
}

StepOutcome StepState::finish() {
  active_ = false;
  std::uint64_t version = UINT64_MAX;
  for (const std::uint64_t slice : version_) version = std::min(version, slice);
  for (const Server& server : servers_)
    for (const Rows& rows : server.tables) version = std::min(version, rows.done);
  return {result_.whole, result_.tally, result_.stop, dropped_, version};
}

void StepState::set_version(int slice, std::uint64_t version) {
  version_[static_cast<std::size_t>(slice)] = version;
}

void StepState::set_rows_version(int server, int table, std::uint64_t version) {
  of(server).tables[static_cast<std::size_t>(table)].version = version;
}

bool StepState::on_values(const Values& message, bool carries_values) {
  const auto slice = static_cast<std::size_t>(message.slice);
  if (message.reason == Values::Reason::pulled) {
    if (carries_values) version_[slice] = message.version;
    return false;
  }
  if (!active_ || message.sequence != begin_.sequence || !pushed_[slice])
    throw ProtocolError(
        fmt::format("an answer to a push of slice {} in step {}, which was not made", message.slice,
                    message.sequence));
  if (answered_[slice]) return false;
  answered_[slice] = 1;
  if (carries_values) version_[slice] = message.version;
  ready_.push_back(message.slice);
  answered(of(layout_->slices[slice].server), message.reason);
  return true;
}

bool StepState::on_rows_done(int number, const RowsDone& message) {
  Server& server = of(number);
  if (!active_ || message.sequence != begin_.sequence || message.table < 0 ||
      static_cast<std::size_t>(message.table) >= server.tables.size())
    throw ProtocolError(
        fmt::format("an answer to rows of table {} in step {}, which were not pushed",
                    message.table, message.sequence));
  Rows& rows = server.tables[static_cast<std::size_t>(message.table)];
  if (rows.answered) return false;
  rows.answered = true;
  rows.done = message.version;
  answered(server, message.reason);
  return true;
}

void StepState::answered(Server& server, Values::Reason reason) {
  if (reason != Values::Reason::applied) ++dropped_;
  --server.missing;
  --missing_;
}

bool StepState::on_step_done(const StepDone& message) {
  if (!active_ || message.sequence != begin_.sequence) return false;
  done_ = true;
  result_ = message;
  return true;
}

bool StepState::waits_for(int server) const {
  return active_ && (of(server).missing > 0 || !ended_ || (server == 0 && !done_));
}

}  // namespace cohort::ps
