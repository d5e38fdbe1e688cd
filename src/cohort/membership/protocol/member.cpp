#include "cohort/membership/protocol/member.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

// Before the first lease says how long leases are.
constexpr Time kFirstBeats = std::chrono::milliseconds(250);
constexpr std::size_t kMostUnanswered = 64;

}  // namespace

Member::Member(MemberInfo info) : info_(std::move(info)), id_(info_.id()) {}

void Member::send(Message message) {
  message.member = id_;
  outbox_.push_back(std::move(message));
}

void Member::send_ready() { send({.kind = MessageKind::ready, .text = agreement_, .info = info_}); }

void Member::send_report() {
  send({.kind = MessageKind::report, .number = proposal_, .base = view_.number, .stage = stage_});
}

bool Member::is_at_rest() const { return state_ == State::waiting || state_ == State::resting; }

bool Member::takes_part() const { return is_at_rest() || state_ == State::training; }

void Member::ready(Time now, const std::string& agreement) {
  if (state_ != State::idle)
    throw InvalidInput("a member says once that it is ready, before anything else");
  agreement_ = agreement;
  state_ = State::waiting;
  send_ready();
  beat(now);
}

void Member::report(Time, std::int64_t stage) {
  if (state_ != State::training && state_ != State::resting) return;
  state_ = State::resting;
  stage_ = stage;
  if (proposal_ > view_.number) send_report();
}

void Member::broken(Time, const std::string& why) {
  if (state_ != State::training && state_ != State::resting) return;
  broken_ = why;
  send_broken();
}

void Member::send_broken() {
  send({.kind = MessageKind::broken, .number = view_.number, .text = *broken_});
}

void Member::progress(std::int64_t stage, std::int64_t step, double rate) {
  if (state_ == State::training) stage_ = stage;
  step_ = step;
  rate_ = rate;
}

void Member::resumed(Time, std::int64_t step, Time stood_still, bool redone) {
  if (state_ != State::training) return;
  send({.kind = MessageKind::resumed,
        .number = view_.number,
        .step = step,
        .duration = stood_still,
        .planned = redone});
}

void Member::finished(Time, std::int64_t stage) {
  if (state_ != State::training) return;
  stage_ = stage;
  finished_ = true;
  send({.kind = MessageKind::finished, .number = view_.number, .stage = stage_});
}

void Member::leave(Time, const std::string& why) {
  if (takes_part()) send({.kind = MessageKind::leaving, .text = why});
  state_ = State::idle;
}

void Member::rejoin(Time now) {
  if (state_ != State::evicted) throw InvalidInput("only a member that was shut out comes again");
  ++info_.rejoins;
  id_ = info_.id();
  view_ = View();
  proposal_ = 0;
  drop_ = false;
  stage_ = kNoState;
  finished_ = false;
  broken_.reset();
  lease_end_.reset();
  unanswered_.clear();
  state_ = State::idle;
  ready(now, agreement_);
}

void Member::beat(Time now) {
  ++beats_;
  unanswered_.emplace_back(beats_, now);
  if (unanswered_.size() > kMostUnanswered) unanswered_.pop_front();
  next_beat_ = now + (lease_ > Time::zero() ? lease_ / 4 : kFirstBeats);
  send(
      {.kind = MessageKind::beat, .number = beats_, .stage = stage_, .step = step_, .rate = rate_});
}

// A message, or its answer, may have been lost with a connection: what is not answered yet is said
// again.
void Member::say_again() {
  if (broken_) send_broken();
  if (proposal_ > view_.number) {
    if (is_at_rest()) send_report();
  } else if (state_ == State::waiting && !lease_end_) {
    send_ready();
  } else if (finished_) {
    send({.kind = MessageKind::finished, .number = view_.number, .stage = stage_});
  }
}

void Member::tick(Time now) {
  if (!takes_part() || now < next_beat_) return;
  say_again();
  beat(now);
}

std::optional<Time> Member::next_tick() const {
  if (!takes_part()) return std::nullopt;
  return next_beat_;
}

void Member::handle(Time, const Message& message) {
  // What was meant for this process under an earlier id is not for it any more.
  if (message.member != id_ || !takes_part()) return;
  switch (message.kind) {
    case MessageKind::lease:
      return take_lease(message);
    case MessageKind::propose:
      return consider(message);
    case MessageKind::install:
      return install(message);
    case MessageKind::evicted:
      return end(State::evicted, message.text);
    case MessageKind::dismissed:
      return end(State::dismissed, message.text);
    case MessageKind::refused:
      return end(State::refused, message.text);
    case MessageKind::over:
      return end(State::over, message.text);
    default:
      return;  // what members say
  }
}

void Member::end(State state, const std::string& why) {
  state_ = state;
  reason_ = why;
  lease_end_.reset();
}

void Member::take_lease(const Message& message) {
  while (!unanswered_.empty() && unanswered_.front().first < message.number)
    unanswered_.pop_front();
  if (unanswered_.empty() || unanswered_.front().first != message.number ||
      message.duration <= Time::zero())
    return;
  const Time sent = unanswered_.front().second;
  unanswered_.pop_front();
  lease_ = message.duration;
  lease_end_ = std::max(lease_end_.value_or(sent), sent + lease_);
  if (message.number == beats_) next_beat_ = sent + lease_ / 4;
}

void Member::consider(const Message& message) {
  if (message.number < proposal_ || message.number <= view_.number) return;
  if (message.number > proposal_) {
    proposal_ = message.number;
    drop_ = drop_ || !message.planned;
    reason_ = message.text;
    if (drop_) broken_.reset();
  }
  if (is_at_rest()) send_report();
}

void Member::install(const Message& message) {
  if (!is_at_rest() || !message.change || message.change->number <= view_.number) return;
  View next;
  try {
    next = apply(message.change->base == 0 ? View() : view_, *message.change);
  } catch (const ProtocolError&) {
    return;  // of a view that this member never got: its next report says which one it has
  }
  const auto is_self = [&](const ViewMember& member) { return member.info == info_; };
  if (std::none_of(next.members.begin(), next.members.end(), is_self)) return;
  view_ = std::move(next);
  state_ = State::training;
  finished_ = false;
  broken_.reset();
  if (proposal_ <= view_.number) {
    proposal_ = view_.number;
    drop_ = false;
  }
}

std::vector<Message> Member::take_messages() { return std::exchange(outbox_, {}); }

Member::State Member::state() const { return state_; }
const MemberInfo& Member::info() const { return info_; }
const View& Member::view() const { return view_; }
std::uint64_t Member::proposal() const { return proposal_; }
std::optional<Time> Member::lease_end() const { return lease_end_; }
const std::string& Member::reason() const { return reason_; }

bool Member::must_drop() const {
  return state_ == State::evicted || (proposal_ > view_.number && drop_);
}

bool Member::may_commit(Time now) const {
  return state_ == State::training && !must_drop() && lease_end_ && now < *lease_end_;
}

}  // namespace cohort::membership
