// The coordinator's changes of view: when one is due, who takes part, what is installed.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/membership/protocol/coordinator.h"

namespace cohort::membership {
namespace {

// worker/2 before worker/10.
bool comes_before(const MemberInfo& a, const MemberInfo& b) {
  return std::pair(a.task.size(), std::string_view(a.task)) <
         std::pair(b.task.size(), std::string_view(b.task));
}

}  // namespace

void Coordinator::settle(Time now) {
  while (!over_ && !failed_ && settle_once(now)) {
  }
}

// One thing that is due; true when it was done.
bool Coordinator::settle_once(Time now) {
  const bool broke = break_due_ && now >= *break_due_;
  if (change_) {
    if (redo_ == Redo::unplanned || (broke && change_->planned)) {
      propose(now, false);
      return true;
    }
    if (redo_ == Redo::planned) {
      propose(now, change_->planned);
      return true;
    }
    take_candidates(now);
    return try_install(now);
  }
  if (view_.number == 0) {
    redo_ = Redo::none;
    if (!is_time_to_start(now)) return false;
    propose(now, false);
    return true;
  }
  const auto size = static_cast<int>(members_.size());
  const bool grows = size < target_ && !table_.waiting().empty();
  // The lost member had not finished, or another has not: had all, training would be over.
  if (redo_ == Redo::unplanned || broke) {
    propose(now, false);
  } else if (finished_ == members_.size()) {
    finish(now);
  } else if (finished_ == 0 && (size > target_ || grows)) {
    propose(now, true);
  } else {
    return false;
  }
  return true;
}

bool Coordinator::is_time_to_start(Time now) {
  const auto ready = static_cast<int>(table_.waiting().size());
  if (ready >= std::min(options_.initial, target_)) return true;
  if (now < *started_ + options_.start_patience) return false;
  if (ready >= options_.least) return true;
  run_short(now);
  return false;
}

void Coordinator::run_short(Time now) {
  if (!short_since_) {
    short_since_ = change_ ? now : *started_;
    tell(now,
         {.kind = MembershipEvent::Kind::waiting,
          .text = fmt::format("{} of at least {} workers are there", table_.size(), options_.least),
          .view = view_});
  }
  if (now < *short_since_ + options_.member_patience) return;
  failed_ = true;
  tell(now,
       {.kind = MembershipEvent::Kind::failed,
        .text = fmt::format("only {} of at least {} workers were there for {} s{}{}", table_.size(),
                            options_.least, options_.member_patience / std::chrono::seconds(1),
                            reasons_.empty() ? "" : "; ", reasons_.text()),
        .view = view_});
}

void Coordinator::propose(Time now, bool planned) {
  std::vector<MemberEntry*> candidates;
  if (change_) candidates = std::move(change_->candidates);
  redo_ = Redo::none;
  break_due_.reset();
  change_ = Change{.number = ++number_, .planned = planned};
  View view;
  view.number = number_;
  tell(now,
       {.kind = MembershipEvent::Kind::proposed, .text = reasons_.text(), .view = std::move(view)});
  change_->candidates = std::move(candidates);
  change_->missing = members_.size() + change_->candidates.size();
  for (MemberEntry* entry : members_) ask(now, *entry);
  for (MemberEntry* entry : change_->candidates) ask(now, *entry);
  take_candidates(now);
}

void Coordinator::ask(Time now, MemberEntry& entry) {
  entry.asked = true;
  entry.reported = false;
  entry.asked_at = now;
  send(entry.id, {.kind = MessageKind::propose,
                  .number = change_->number,
                  .planned = change_->planned,
                  .text = reasons_.text()});
}

// Newcomers as far as there is room. Who comes while a change is under way is taken along.
void Coordinator::take_candidates(Time now) {
  for (auto next = table_.waiting().upper_bound(change_->considered);
       next != table_.waiting().end(); ++next) {
    if (static_cast<int>(members_.size() + change_->candidates.size()) >= target_) return;
    auto& [arrival, entry] = *next;
    change_->considered = arrival;
    if (entry->asked) continue;
    change_->candidates.push_back(entry);
    ++change_->missing;
    ask(now, *entry);
  }
}

bool Coordinator::try_install(Time now) {
  const auto there = static_cast<int>(members_.size() + change_->candidates.size());
  if (there >= options_.least) short_since_.reset();
  if (change_->missing > 0) return false;
  if (there < options_.least) {
    run_short(now);
    return false;
  }
  install(now);
  return true;
}

void Coordinator::install(Time now) {
  const auto wanted = static_cast<std::size_t>(target_);
  const std::vector<MemberEntry*> dismissed(
      members_.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, members_.size())),
      members_.end());
  members_.resize(std::min(wanted, members_.size()));
  std::vector<std::uint32_t> removed;
  std::uint32_t rank = 0;
  for (const MemberEntry* entry : members_)
    for (; rank++ < entry->rank;) removed.push_back(rank - 1);
  for (; rank < view_.members.size(); ++rank) removed.push_back(rank);

  std::stable_sort(change_->candidates.begin(), change_->candidates.end(),
                   [](const MemberEntry* a, const MemberEntry* b) {
                     return comes_before(a->status.info, b->status.info);
                   });
  for (MemberEntry* entry : change_->candidates) {
    entry->asked = false;
    if (members_.size() >= wanted) continue;  // the job was made smaller meanwhile: it waits on
    table_.end_wait(*entry);
    reasons_.add(fmt::format("{} joined", entry->status.info.task));
    members_.push_back(entry);
  }
  View next;
  next.number = change_->number;
  next.members.reserve(members_.size());
  for (const MemberEntry* entry : members_)
    next.members.push_back({entry->status.info, entry->stage});
  for (const MemberEntry* entry : dismissed)
    reasons_.add(fmt::format("{} left", entry->status.info.task));
  next.reason = reasons_.text();
  view_change_ =
      std::make_shared<const ViewChange>(change_between(view_, std::move(removed), next));
  whole_view_ = std::make_shared<const ViewChange>(change_between(View(), {}, next));
  const std::uint64_t before = view_.number;
  view_ = std::move(next);
  change_.reset();
  redo_ = Redo::none;
  break_due_.reset();
  short_since_.reset();
  reasons_ = {};
  resumed_ = false;
  finished_ = 0;
  tell(now, {.kind = MembershipEvent::Kind::installed, .text = view_.reason, .view = view_});
  for (std::size_t i = 0; i < members_.size(); ++i) {
    MemberEntry& entry = *members_[i];
    entry.rank = static_cast<std::uint32_t>(i);
    entry.status.is_member = true;
    entry.status.stage = entry.stage;
    entry.asked = entry.finished = false;
    send_install(entry, entry.base != before);
  }
  for (MemberEntry* entry : dismissed) {
    entry->finished = false;  // of a view that is no more
    const std::string why = fmt::format("the job now has {} workers", view_.size());
    send(entry->id, {.kind = MessageKind::dismissed, .text = why});
    tell(now, {.kind = MembershipEvent::Kind::dismissed, .member = entry->id, .text = why});
    forget(*entry, {MessageKind::dismissed, why});
  }
}

void Coordinator::send_install(const MemberEntry& entry, bool whole) {
  send(entry.id, {.kind = MessageKind::install,
                  .number = view_.number,
                  .change = whole ? whole_view_ : view_change_});
}

void Coordinator::finish(Time now) {
  over_ = true;
  for (const MemberEntry* entry : members_) send(entry->id, {.kind = MessageKind::over});
  const std::map<std::uint64_t, MemberEntry*> waiting = table_.waiting();  // forget() changes it
  for (const auto& [arrival, entry] : waiting) {
    const std::string why = "training is over";
    send(entry->id, {.kind = MessageKind::dismissed, .text = why});
    tell(now, {.kind = MembershipEvent::Kind::dismissed, .member = entry->id, .text = why});
    forget(*entry, {MessageKind::dismissed, why});
  }
  tell(now, {.kind = MembershipEvent::Kind::over, .text = "training is over", .view = view_});
}

}  // namespace cohort::membership
