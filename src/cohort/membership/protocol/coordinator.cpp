#include "cohort/membership/protocol/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

using std::chrono::milliseconds;
constexpr Time kFirstBreakDelay = milliseconds(50);
constexpr Time kLongestBreakDelay = milliseconds(1000);

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)), target_(options_.most), table_(options_.lease) {
  if (options_.least < 1 || options_.most < options_.least || options_.lease <= Time::zero())
    throw InvalidInput(fmt::format(
        "an elastic job cannot have {} to {} members with leases of {} ns; say 1 <= least <= most",
        options_.least, options_.most, options_.lease.count()));
  options_.initial = std::clamp(options_.initial, options_.least, options_.most);
}

void Coordinator::begin(Time now) {
  if (!started_) started_ = now;
}

void Coordinator::send(const std::string& member, Message message) {
  message.member = member;
  outbox_.push_back({member, std::move(message)});
}

void Coordinator::tell(Time now, MembershipEvent event) {
  event.at = now;
  if (event.view.number == 0) event.view.number = view_.number;  // in which it happened
  events_.push_back(std::move(event));
}

void Coordinator::handle(Time now, const Message& message) {
  begin(now);
  MemberEntry* entry = table_.find(message.member);
  if (entry == nullptr) {
    if (message.kind == MessageKind::ready && !table_.find_gone(message.member))
      admit(now, message);
    else
      answer_unknown(message);
    return settle(now);
  }
  entry->status.last_heard = now;
  // To hold a lease for longer than its member does is always safe.
  if (entry->doubt == MemberEntry::Doubt::none) table_.renew(*entry, now);
  switch (message.kind) {
    case MessageKind::ready:
      // It waits for a view that it was sent, and that was lost on the way.
      if (entry->status.is_member) send_install(*entry, true);
      break;
    case MessageKind::beat:
      on_beat(now, *entry, message);
      break;
    case MessageKind::report:
      on_report(now, *entry, message);
      break;
    case MessageKind::broken:
      on_broken(now, *entry, message);
      break;
    case MessageKind::resumed:
      on_resumed(now, *entry, message);
      break;
    case MessageKind::finished:
      if (entry->status.is_member && message.number == view_.number) {
        if (!entry->finished) ++finished_;
        entry->finished = true;
        entry->status.stage = message.stage;
        if (over_) send(entry->id, {.kind = MessageKind::over});
      }
      break;
    case MessageKind::leaving:
      remove(now, *entry, message.text);
      break;
    default:
      ++ignored_;
  }
  settle(now);
}

void Coordinator::admit(Time now, const Message& message) {
  const MemberInfo& info = message.info;
  if (info.id() != message.member) {
    ++ignored_;
    return;
  }
  if (table_.is_dead(info)) return;  // its last words
  if (over_) {
    table_.refuse(message.member, {MessageKind::dismissed, "training is over"});
    return answer_unknown(message);
  }
  if (!replace_older_run(now, info)) {
    table_.refuse(message.member, {MessageKind::dismissed,
                                   fmt::format("{} was started again meanwhile", info.task)});
    return answer_unknown(message);
  }
  if (const auto others = table_.disagreement(message.text)) {
    table_.refuse(message.member, {MessageKind::refused, *others});
    tell(now, {.kind = MembershipEvent::Kind::refused,
               .member = message.member,
               .text = fmt::format("it was started with {}, the others with {}", message.text,
                                   *others)});
    return answer_unknown(message);
  }
  table_.add(now, info);
}

// A worker has one entry: the newest run of its process replaces the older ones. False: the newcomer
// is itself the older one.
bool Coordinator::replace_older_run(Time now, const MemberInfo& newcomer) {
  const std::vector<MemberEntry*> before = table_.runs_of(newcomer.task);
  const auto is_newer = [&](const MemberEntry* entry) {
    const MemberInfo& info = entry->status.info;
    return std::pair(info.incarnation, info.rejoins) >
           std::pair(newcomer.incarnation, newcomer.rejoins);
  };
  if (std::any_of(before.begin(), before.end(), is_newer)) return false;
  for (MemberEntry* entry : before) {
    const std::string why = fmt::format("it came again as {}", newcomer.id());
    if (entry->status.info.incarnation == newcomer.incarnation)
      remove(now, *entry, why);  // by its own word it has given up
    else
      suspect(now, entry->id, why);
  }
  return true;
}

void Coordinator::answer_unknown(const Message& message) {
  const MemberTable::Gone* gone = table_.find_gone(message.member);
  if (gone == nullptr || message.kind == MessageKind::leaving) {
    ++ignored_;
    return;
  }
  send(message.member, {.kind = gone->how, .text = gone->why});
}

void Coordinator::on_beat(Time now, MemberEntry& entry, const Message& message) {
  entry.status.stage = message.stage;
  entry.status.step = message.step;
  entry.status.rate = message.rate;
  if (entry.doubt == MemberEntry::Doubt::disconnected) entry.doubt = MemberEntry::Doubt::none;
  if (over_) return send(entry.id, {.kind = MessageKind::over});
  if (entry.doubt == MemberEntry::Doubt::none) {
    table_.renew(entry, now);
    send(entry.id,
         {.kind = MessageKind::lease, .number = message.number, .duration = options_.lease});
  }
  if (change_ && entry.asked && !entry.reported && now - entry.asked_at >= options_.lease / 2)
    ask(now, entry);  // the proposal may have been lost
}

void Coordinator::on_report(Time now, MemberEntry& entry, const Message& message) {
  if (!change_) {
    if (entry.status.is_member && message.number <= view_.number)
      send_install(entry, message.base != view_change_->base);
    return;
  }
  if (!entry.asked || entry.reported || message.number != change_->number) return;
  entry.reported = true;
  entry.stage = message.stage;
  entry.base = message.base;
  if (entry.doubt == MemberEntry::Doubt::overdue) entry.doubt = MemberEntry::Doubt::none;
  if (entry.status.is_member && !change_->reports_since) change_->reports_since = now;
  --change_->missing;
}

void Coordinator::on_broken(Time now, MemberEntry& entry, const Message& message) {
  if (!entry.status.is_member || message.number != view_.number || break_due_ ||
      (change_ && !change_->planned))
    return;
  Time delay{0};
  if (breaks_ > 0)
    delay = std::min(kLongestBreakDelay, kFirstBreakDelay * (1 << std::min(breaks_ - 1, 10)));
  ++breaks_;
  break_due_ = now + delay;
  reasons_.add(fmt::format("{} could not go on: {}", entry.status.info.task, message.text));
}

void Coordinator::on_resumed(Time now, MemberEntry& entry, const Message& message) {
  if (!entry.status.is_member || message.number != view_.number || resumed_) return;
  // How long training stood still, a newcomer does not know.
  const bool newcomer = view_.members[entry.rank].stage == kNoState;
  if (newcomer && view_.stage() != kNoState) return;
  resumed_ = true;
  breaks_ = 0;
  tell(now, {.kind = MembershipEvent::Kind::resumed,
             .member = entry.id,
             .text = view_.reason,
             .view = view_,
             .step = message.step,
             .duration = message.duration,
             .redone = message.planned});
}

void Coordinator::lost(Time now, const std::string& id, const std::string& why) {
  begin(now);
  if (MemberEntry* entry = table_.find(id)) remove(now, *entry, why);
  settle(now);
}

void Coordinator::lost(Time now, const std::string& task, int incarnation, const std::string& why) {
  begin(now);
  table_.mark_dead(task, incarnation);
  for (MemberEntry* entry : table_.runs_of(task))
    if (entry->status.info.incarnation == incarnation) remove(now, *entry, why);
  settle(now);
}

void Coordinator::suspect(Time now, const std::string& id, const std::string& why) {
  begin(now);
  if (MemberEntry* entry = table_.find(id))
    doubt(now, *entry, MemberEntry::Doubt::disconnected, why);
  settle(now);
}

void Coordinator::doubt(Time now, MemberEntry& entry, MemberEntry::Doubt doubt,
                        const std::string& why) {
  // Who is no member has no lease that counts.
  if (!entry.status.is_member) return evict(now, entry, why);
  if (entry.doubt == MemberEntry::Doubt::none && doubt == MemberEntry::Doubt::disconnected) {
    redo_ = Redo::unplanned;
    reasons_.add(fmt::format("{}: {}", entry.status.info.task, why));
  }
  entry.doubt = doubt;
  entry.doubted = why;
}

void Coordinator::evict(Time now, MemberEntry& entry, const std::string& why) {
  send(entry.id, {.kind = MessageKind::evicted, .text = why});
  remove(now, entry, why);
}

void Coordinator::remove(Time now, MemberEntry& entry, const std::string& why) {
  if (!over_) tell(now, {.kind = MembershipEvent::Kind::evicted, .member = entry.id, .text = why});
  if (entry.status.is_member) {
    redo_ = Redo::unplanned;
    breaks_ = 0;
  } else if (entry.asked && redo_ == Redo::none) {
    redo_ = Redo::planned;
  }
  if (entry.status.is_member || entry.asked)
    reasons_.add(fmt::format("{}: {}", entry.status.info.task, why));
  forget(entry, {MessageKind::evicted, why});
}

void Coordinator::forget(MemberEntry& entry, MemberTable::Gone gone) {
  std::erase(members_, &entry);
  if (entry.finished) --finished_;
  if (change_) {
    if (entry.asked && !entry.reported) --change_->missing;
    std::erase(change_->candidates, &entry);
  }
  table_.remove(entry, std::move(gone));
}

void Coordinator::resize(Time now, int members, const std::string& why) {
  begin(now);
  if (members < options_.least || members > options_.most)
    throw InvalidInput(fmt::format("a job of {} to {} workers cannot have {}", options_.least,
                                   options_.most, members));
  if (members == target_) return;
  target_ = members;
  reasons_.add(why);
  settle(now);
}

void Coordinator::evict_expired(Time now) {
  for (MemberEntry* entry : table_.expired(now)) {
    const bool silent = entry->doubt == MemberEntry::Doubt::none;
    evict(now, *entry,
          silent ? fmt::format("nothing was heard of it for {} ms",
                               (now - entry->status.last_heard) / milliseconds(1))
                 : std::string(entry->doubted));
  }
}

void Coordinator::lose_patience(Time now) {
  if (!change_ || change_->overdue || !change_->reports_since ||
      now < *change_->reports_since + options_.report_patience)
    return;
  change_->overdue = true;
  std::vector<MemberEntry*> late = members_;
  late.insert(late.end(), change_->candidates.begin(), change_->candidates.end());
  std::erase_if(late, [](const MemberEntry* entry) { return !entry->asked || entry->reported; });
  for (MemberEntry* entry : late)
    doubt(now, *entry, MemberEntry::Doubt::overdue, "it did not come to rest");
}

void Coordinator::tick(Time now) {
  begin(now);
  if (over_ || failed_) return;
  evict_expired(now);
  lose_patience(now);
  settle(now);
}

std::optional<Time> Coordinator::next_tick() const {
  if (!started_ || over_ || failed_) return std::nullopt;
  std::optional<Time> next;
  const auto due = [&](Time time) { next = next ? std::min(*next, time) : time; };
  if (const auto expiry = table_.next_expiry()) due(*expiry);
  if (break_due_) due(*break_due_);
  if (short_since_) due(*short_since_ + options_.member_patience);
  if (change_ && change_->reports_since && !change_->overdue)
    due(*change_->reports_since + options_.report_patience);
  if (view_.number == 0 && !change_ && !short_since_) due(*started_ + options_.start_patience);
  return next;
}

std::vector<Coordinator::Outgoing> Coordinator::take_messages() {
  return std::exchange(outbox_, {});
}
std::vector<MembershipEvent> Coordinator::take_events() { return std::exchange(events_, {}); }

Coordinator::Phase Coordinator::phase() const {
  if (failed_) return Phase::failed;
  if (over_) return Phase::over;
  if (view_.number == 0) return Phase::gathering;
  return change_ ? Phase::changing : Phase::training;
}

const View& Coordinator::view() const { return view_; }
int Coordinator::target() const { return target_; }
std::uint64_t Coordinator::ignored() const { return ignored_; }

std::vector<MemberStatus> Coordinator::members() const {
  std::vector<MemberStatus> all;
  all.reserve(table_.size());
  for (const MemberEntry* entry : members_) all.push_back(entry->status);
  for (const auto& [arrival, entry] : table_.waiting()) all.push_back(entry->status);
  return all;
}

}  // namespace cohort::membership
