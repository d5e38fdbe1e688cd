#include "cohort/membership/protocol/message.h"

#include <fmt/format.h>

#include <cmath>

#include "cohort/base/data/fields.h"

namespace cohort::membership {
namespace {

constexpr std::size_t kMaxName = 256;  // of a task or a host

// What a list of the messages needs at least for each item.
constexpr std::size_t kSmallestInfo = 24;
constexpr std::size_t kSmallestStages = 12;

template <typename Io>
void natural(Io& io, auto& value, const char* what) {
  io(value);
  io.expect(value >= 0, [&] { return fmt::format("{} is {}", what, value); });
}

template <typename Io>
void stage_field(Io& io, auto& stage) {
  io(stage);
  io.expect(stage >= kNoState, [&] { return fmt::format("a stage is {}", stage); });
}

}  // namespace

void fields(auto& io, MessageOf<MemberInfo> auto& info) {
  io.text(info.task, kMaxName);
  natural(io, info.incarnation, "an incarnation");
  natural(io, info.rejoins, "a number of rejoins");
  io.text(info.host, kMaxName), io(info.pid);
}

void fields(auto& io, MessageOf<ViewChange::Stages> auto& run) {
  io(run.members), stage_field(io, run.stage);
}

void fields(auto& io, MessageOf<ViewChange> auto& change) {
  const auto item = [](auto& list, auto& value) { list(value); };
  io(change.base), io(change.number), io.list(change.removed, kMaxViewMembers);
  io.list(change.added, kMaxViewMembers, kSmallestInfo, item);
  io.list(change.stages, kMaxViewMembers, kSmallestStages, item);
  io.text(change.reason, kMaxMessageText);
}

void fields(auto& io, MessageOf<Message> auto& message) {
  io(message.kind);
  io.expect(!to_string(message.kind).empty(), [&] {
    return fmt::format("unknown kind {} of a membership message", static_cast<int>(message.kind));
  });
  io.text(message.member, kMaxMemberId), io(message.number), io(message.base);
  stage_field(io, message.stage), io(message.step), io(message.rate), io(message.duration);
  io.expect(std::isfinite(message.rate) && message.step >= 0 && message.duration.count() >= 0, [&] {
    return fmt::format("step {}, {} samples a second or {} ns make no sense", message.step,
                       message.rate, message.duration.count());
  });
  io(message.planned), io.text(message.text, kMaxMessageText);
  if (message.kind == MessageKind::ready) io(message.info);
  if (message.kind == MessageKind::install) {
    if constexpr (std::remove_reference_t<decltype(io)>::kReads) {
      auto change = std::make_shared<ViewChange>();
      io(*change);
      message.change = std::move(change);
    } else {
      io(message.change ? *message.change : ViewChange());
    }
  }
}

bool Message::operator==(const Message& other) const {
  const bool same_change =
      change && other.change ? *change == *other.change : change == other.change;
  return same_change && kind == other.kind && member == other.member && number == other.number &&
         base == other.base && stage == other.stage && step == other.step && rate == other.rate &&
         duration == other.duration && planned == other.planned && text == other.text &&
         info == other.info;
}

std::string encode(const Message& message) { return encode_fields(message); }
Message decode_message(std::string_view bytes) { return decode_fields<Message>(bytes); }

std::string_view to_string(MessageKind kind) {
  switch (kind) {
    case MessageKind::ready:
      return "ready";
    case MessageKind::beat:
      return "beat";
    case MessageKind::report:
      return "report";
    case MessageKind::broken:
      return "broken";
    case MessageKind::resumed:
      return "resumed";
    case MessageKind::finished:
      return "finished";
    case MessageKind::leaving:
      return "leaving";
    case MessageKind::lease:
      return "lease";
    case MessageKind::propose:
      return "propose";
    case MessageKind::install:
      return "install";
    case MessageKind::evicted:
      return "evicted";
    case MessageKind::dismissed:
      return "dismissed";
    case MessageKind::refused:
      return "refused";
    case MessageKind::over:
      return "over";
  }
  return "";
}

}  // namespace cohort::membership
