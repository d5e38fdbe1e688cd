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

// Clocks of two hosts do not run equally fast: leases end here a little later than they must.
Time held(Time lease) { return lease + lease / 20; }

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)), target_(options_.most) {
  if (options_.least < 1 || options_.most < options_.least || options_.lease <= Time::zero())
    throw InvalidInput(fmt::format(
        "an elastic job cannot have {} to {} members with leases of {} ns; say 1 <= least <= most",
        options_.least, options_.most, options_.lease.count()));
  options_.initial = std::clamp(options_.initial, options_.least, options_.most);
}

void Coordinator::begin(Time now) {
  if (!started_) started_ = now;
}

Coordinator::Known* Coordinator::find(const std::string& id) {
  const auto found = known_.find(id);
  return found == known_.end() ? nullptr : found->second.get();
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
  Known* known = find(message.member);
  if (known == nullptr) {
    if (message.kind == MessageKind::ready && !gone_.contains(message.member))
      admit(now, message);
    else
      answer_stranger(message);
    return settle(now);
  }
  known->seat.last_heard = now;
  // To hold a lease for longer than its member does is always safe.
  if (known->doubt == Known::Doubt::none) leases_.renew(known->lease, now + held(options_.lease));
  switch (message.kind) {
    case MessageKind::ready:
      // It waits for a view that it was sent, and that was lost on the way.
      if (known->seat.member) send_install(*known, true);
      break;
    case MessageKind::beat:
      on_beat(now, *known, message);
      break;
    case MessageKind::report:
      on_report(now, *known, message);
      break;
    case MessageKind::broken:
      on_broken(now, *known, message);
      break;
    case MessageKind::resumed:
      on_resumed(now, *known, message);
      break;
    case MessageKind::finished:
      if (known->seat.member && message.number == view_.number) {
        if (!known->finished) ++finished_;
        known->finished = true;
        known->seat.stage = message.stage;
        if (over_) send(known->id, {.kind = MessageKind::over});
      }
      break;
    case MessageKind::leaving:
      remove(now, *known, message.text);
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
  const auto dead = dead_.find(info.task);
  if (dead != dead_.end() && info.incarnation <= dead->second) return;  // its last words
  if (over_) {
    gone_[message.member] = {MessageKind::dismissed, "training is over"};
    return answer_stranger(message);
  }
  if (!give_way(now, info)) {
    gone_[message.member] = {MessageKind::dismissed,
                             fmt::format("{} was started again meanwhile", info.task)};
    return answer_stranger(message);
  }
  if (known_.empty()) agreement_.reset();
  if (!agreement_) agreement_ = message.text;
  if (*agreement_ != message.text) {
    gone_[message.member] = {MessageKind::refused, *agreement_};
    tell(now, {.kind = MembershipEvent::Kind::refused,
               .member = message.member,
               .text = fmt::format("it was started with {}, the others with {}", message.text,
                                   *agreement_)});
    return answer_stranger(message);
  }
  auto known = std::make_unique<Known>();
  known->id = message.member;
  known->seat.info = info;
  known->seat.last_heard = now;
  known->arrival = ++arrivals_;
  known->lease = leases_.give(now + held(options_.lease), known.get());
  waiting_.emplace(known->arrival, known.get());
  by_task_.emplace(info.task, known.get());
  known_.emplace(known->id, std::move(known));
}

// A worker has one seat: who comes again, or was started again, takes the place of whom it was
// before. False: the newcomer is itself the older one.
bool Coordinator::give_way(Time now, const MemberInfo& newcomer) {
  std::vector<Known*> before;
  const auto [first, last] = by_task_.equal_range(newcomer.task);
  for (auto place = first; place != last; ++place) {
    const MemberInfo& info = place->second->seat.info;
    if (std::pair(info.incarnation, info.rejoins) >
        std::pair(newcomer.incarnation, newcomer.rejoins))
      return false;
    before.push_back(place->second);
  }
  for (Known* known : before) {
    const std::string why = fmt::format("it came again as {}", newcomer.id());
    if (known->seat.info.incarnation == newcomer.incarnation)
      remove(now, *known, why);  // by its own word it has given up
    else
      suspect(now, known->id, why);
  }
  return true;
}

void Coordinator::answer_stranger(const Message& message) {
  const auto gone = gone_.find(message.member);
  if (gone == gone_.end() || message.kind == MessageKind::leaving) {
    ++ignored_;
    return;
  }
  send(message.member, {.kind = gone->second.how, .text = gone->second.why});
}

void Coordinator::on_beat(Time now, Known& known, const Message& message) {
  known.seat.stage = message.stage;
  known.seat.step = message.step;
  known.seat.rate = message.rate;
  if (known.doubt == Known::Doubt::disconnected) known.doubt = Known::Doubt::none;
  if (over_) return send(known.id, {.kind = MessageKind::over});
  if (known.doubt == Known::Doubt::none) {
    leases_.renew(known.lease, now + held(options_.lease));
    send(known.id,
         {.kind = MessageKind::lease, .number = message.number, .duration = options_.lease});
  }
  if (change_ && known.asked && !known.reported && now - known.asked_at >= options_.lease / 2)
    ask(now, known);  // the proposal may have been lost
}

void Coordinator::on_report(Time now, Known& known, const Message& message) {
  if (!change_) {
    if (known.seat.member && message.number <= view_.number)
      send_install(known, message.base != view_change_->base);
    return;
  }
  if (!known.asked || known.reported || message.number != change_->number) return;
  known.reported = true;
  known.stage = message.stage;
  known.base = message.base;
  if (known.doubt == Known::Doubt::overdue) known.doubt = Known::Doubt::none;
  if (known.seat.member && !change_->reports_since) change_->reports_since = now;
  --change_->missing;
}

void Coordinator::on_broken(Time now, Known& known, const Message& message) {
  if (!known.seat.member || message.number != view_.number || break_due_ ||
      (change_ && !change_->planned))
    return;
  Time delay{0};
  if (breaks_ > 0)
    delay = std::min(kLongestBreakDelay, kFirstBreakDelay * (1 << std::min(breaks_ - 1, 10)));
  ++breaks_;
  break_due_ = now + delay;
  add_reason(fmt::format("{} could not go on: {}", known.seat.info.task, message.text));
}

void Coordinator::on_resumed(Time now, Known& known, const Message& message) {
  if (!known.seat.member || message.number != view_.number || resumed_) return;
  // How long training stood still, a newcomer does not know.
  const bool newcomer = view_.members[known.rank].stage == kNoState;
  if (newcomer && view_.stage() != kNoState) return;
  resumed_ = true;
  breaks_ = 0;
  tell(now, {.kind = MembershipEvent::Kind::resumed,
             .member = known.id,
             .text = view_.reason,
             .view = view_,
             .step = message.step,
             .duration = message.duration,
             .redone = message.planned});
}

void Coordinator::lost(Time now, const std::string& id, const std::string& why) {
  begin(now);
  if (Known* known = find(id)) remove(now, *known, why);
  settle(now);
}

void Coordinator::lost(Time now, const std::string& task, int incarnation, const std::string& why) {
  begin(now);
  int& dead = dead_.try_emplace(task, incarnation).first->second;
  dead = std::max(dead, incarnation);
  std::vector<Known*> gone;
  const auto [first, last] = by_task_.equal_range(task);
  for (auto place = first; place != last; ++place)
    if (place->second->seat.info.incarnation == incarnation) gone.push_back(place->second);
  for (Known* known : gone) remove(now, *known, why);
  settle(now);
}

void Coordinator::suspect(Time now, const std::string& id, const std::string& why) {
  begin(now);
  if (Known* known = find(id)) doubt(now, *known, Known::Doubt::disconnected, why);
  settle(now);
}

void Coordinator::doubt(Time now, Known& known, Known::Doubt doubt, const std::string& why) {
  // Who is no member has no lease that counts.
  if (!known.seat.member) return evict(now, known, why);
  if (known.doubt == Known::Doubt::none && doubt == Known::Doubt::disconnected) {
    redo_ = Redo::unplanned;
    add_reason(fmt::format("{}: {}", known.seat.info.task, why));
  }
  known.doubt = doubt;
  known.doubted = why;
}

void Coordinator::evict(Time now, Known& known, const std::string& why) {
  send(known.id, {.kind = MessageKind::evicted, .text = why});
  remove(now, known, why);
}

void Coordinator::remove(Time now, Known& known, const std::string& why) {
  if (!over_) tell(now, {.kind = MembershipEvent::Kind::evicted, .member = known.id, .text = why});
  if (known.seat.member) {
    redo_ = Redo::unplanned;
    breaks_ = 0;
  } else if (known.asked && redo_ == Redo::none) {
    redo_ = Redo::planned;
  }
  if (known.seat.member || known.asked)
    add_reason(fmt::format("{}: {}", known.seat.info.task, why));
  forget(known, {MessageKind::evicted, why});
}

void Coordinator::forget(Known& known, Gone gone) {
  std::erase(members_, &known);
  if (known.finished) --finished_;
  waiting_.erase(known.arrival);
  if (change_) {
    if (known.asked && !known.reported) --change_->missing;
    std::erase(change_->candidates, &known);
  }
  const auto [first, last] = by_task_.equal_range(known.seat.info.task);
  by_task_.erase(std::find_if(first, last, [&](const auto& at) { return at.second == &known; }));
  leases_.remove(known.lease);
  gone_[known.id] = std::move(gone);
  known_.erase(std::string(known.id));
}

void Coordinator::resize(Time now, int members, const std::string& why) {
  begin(now);
  if (members < options_.least || members > options_.most)
    throw InvalidInput(fmt::format("a job of {} to {} workers cannot have {}", options_.least,
                                   options_.most, members));
  if (members == target_) return;
  target_ = members;
  add_reason(why);
  settle(now);
}

void Coordinator::evict_expired(Time now) {
  const Leases::Lease* first = leases_.first();
  if (first == nullptr || first->end > now) return;
  // Beats may lie unread. Who comes late was itself not there, and has many to read.
  if (!grace_ || grace_->noticed < first->end) {
    const bool late = now - first->end > options_.lease / 40;
    grace_ = Grace{.noticed = now, .end = now + options_.lease / (late ? 4 : 40)};
  }
  if (now < grace_->end) return;
  const Time noticed = grace_->noticed;
  for (; first != nullptr && first->end <= noticed; first = leases_.first()) {
    Known& known = *static_cast<Known*>(first->holder);
    const bool silent = known.doubt == Known::Doubt::none;
    evict(now, known,
          silent ? fmt::format("nothing was heard of it for {} ms",
                               (now - known.seat.last_heard) / milliseconds(1))
                 : std::string(known.doubted));
  }
}

void Coordinator::lose_patience(Time now) {
  if (!change_ || change_->overdue || !change_->reports_since ||
      now < *change_->reports_since + options_.report_patience)
    return;
  change_->overdue = true;
  std::vector<Known*> late;
  for (const auto& [id, known] : known_)
    if (known->asked && !known->reported) late.push_back(known.get());
  for (Known* known : late) doubt(now, *known, Known::Doubt::overdue, "it did not come to rest");
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
  if (const Leases::Lease* first = leases_.first())
    due(grace_ && first->end <= grace_->noticed ? grace_->end : first->end);
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

std::vector<Coordinator::Seat> Coordinator::seats() const {
  std::vector<Seat> seats;
  seats.reserve(known_.size());
  for (const Known* known : members_) seats.push_back(known->seat);
  for (const auto& [arrival, known] : waiting_) seats.push_back(known->seat);
  return seats;
}

}  // namespace cohort::membership
