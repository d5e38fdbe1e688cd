#include "cohort/membership/protocol/message.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "cohort/base/data/byte_io.h"

namespace cohort::membership {
namespace {

constexpr std::size_t kMaxName = 256;  // of a task or a host

std::uint32_t read_count(ByteReader& reader, std::size_t smallest) {
  const auto count = reader.integer<std::uint32_t>();
  if (count > kMaxViewMembers || count > reader.remaining() / smallest)
    throw ProtocolError(fmt::format("a list of {} items does not fit its message", count));
  return count;
}

int read_natural(ByteReader& reader, const char* what) {
  const auto value = reader.integer<std::int32_t>();
  if (value < 0) throw ProtocolError(fmt::format("{} is {}", what, value));
  return value;
}

std::int64_t read_stage(ByteReader& reader) {
  const auto stage = reader.integer<std::int64_t>();
  if (stage < kNoState) throw ProtocolError(fmt::format("a stage is {}", stage));
  return stage;
}

void write(ByteWriter& writer, const MemberInfo& info) {
  writer.text(info.task)
      .integer(static_cast<std::int32_t>(info.incarnation))
      .integer(static_cast<std::int32_t>(info.rejoins))
      .text(info.host)
      .integer(info.pid);
}

MemberInfo read_info(ByteReader& reader) {
  MemberInfo info;
  info.task = reader.text(kMaxName);
  info.incarnation = read_natural(reader, "an incarnation");
  info.rejoins = read_natural(reader, "a number of rejoins");
  info.host = reader.text(kMaxName);
  info.pid = reader.integer<std::int64_t>();
  return info;
}

void write(ByteWriter& writer, const ViewChange& change) {
  writer.integer(change.base).integer(change.number);
  writer.integer(static_cast<std::uint32_t>(change.removed.size()));
  for (const std::uint32_t rank : change.removed) writer.integer(rank);
  writer.integer(static_cast<std::uint32_t>(change.added.size()));
  for (const MemberInfo& info : change.added) write(writer, info);
  writer.integer(static_cast<std::uint32_t>(change.stages.size()));
  for (const ViewChange::Stages& run : change.stages)
    writer.integer(run.members).integer(run.stage);
  writer.text(change.reason);
}

ViewChange read_change(ByteReader& reader) {
  ViewChange change;
  change.base = reader.integer<std::uint64_t>();
  change.number = reader.integer<std::uint64_t>();
  change.removed.resize(read_count(reader, 4));
  for (std::uint32_t& rank : change.removed) rank = reader.integer<std::uint32_t>();
  const std::uint32_t added = read_count(reader, 24);
  change.added.reserve(added);
  for (std::uint32_t i = 0; i < added; ++i) change.added.push_back(read_info(reader));
  change.stages.resize(read_count(reader, 12));
  for (ViewChange::Stages& run : change.stages) {
    run.members = reader.integer<std::uint32_t>();
    run.stage = read_stage(reader);
  }
  change.reason = reader.text(kMaxMessageText);
  return change;
}

bool read_bool(ByteReader& reader) {
  const auto value = reader.integer<std::uint8_t>();
  if (value > 1) throw ProtocolError(fmt::format("a yes or no is {}", value));
  return value == 1;
}

}  // namespace

bool Message::operator==(const Message& other) const {
  const bool same_change =
      change && other.change ? *change == *other.change : change == other.change;
  return same_change && kind == other.kind && member == other.member && number == other.number &&
         base == other.base && stage == other.stage && step == other.step && rate == other.rate &&
         duration == other.duration && planned == other.planned && text == other.text &&
         info == other.info;
}

std::string encode(const Message& message) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.integer(static_cast<std::uint8_t>(message.kind))
      .text(message.member)
      .integer(message.number)
      .integer(message.base)
      .integer(message.stage)
      .integer(message.step)
      .integer(std::bit_cast<std::uint64_t>(message.rate))
      .integer(static_cast<std::int64_t>(message.duration.count()))
      .integer(static_cast<std::uint8_t>(message.planned))
      .text(message.text);
  if (message.kind == MessageKind::ready) write(writer, message.info);
  if (message.kind == MessageKind::install)
    write(writer, message.change ? *message.change : ViewChange());
  return bytes;
}

Message decode_message(std::string_view bytes) {
  ByteReader reader(bytes);
  Message message;
  const auto kind = reader.integer<std::uint8_t>();
  message.kind = static_cast<MessageKind>(kind);
  if (to_string(message.kind).empty())
    throw ProtocolError(fmt::format("unknown kind {} of a membership message", kind));
  message.member = reader.text(kMaxMemberId);
  message.number = reader.integer<std::uint64_t>();
  message.base = reader.integer<std::uint64_t>();
  message.stage = read_stage(reader);
  message.step = reader.integer<std::int64_t>();
  message.rate = std::bit_cast<double>(reader.integer<std::uint64_t>());
  message.duration = std::chrono::nanoseconds(reader.integer<std::int64_t>());
  if (!std::isfinite(message.rate) || message.step < 0 || message.duration.count() < 0)
    throw ProtocolError(fmt::format("step {}, {} samples a second or {} ns make no sense",
                                    message.step, message.rate, message.duration.count()));
  message.planned = read_bool(reader);
  message.text = reader.text(kMaxMessageText);
  if (message.kind == MessageKind::ready) message.info = read_info(reader);
  if (message.kind == MessageKind::install)
    message.change = std::make_shared<const ViewChange>(read_change(reader));
  reader.expect_end();
  return message;
}

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
