#include "cohort/ps/wire/messages.h"

#include "cohort/base/data/fields.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

namespace {

constexpr std::size_t kMaxText = kMaxControlBytes - 4096;  // a spec, statistics
constexpr std::size_t kMaxSentence = 16 << 10;             // a reason, a piece of advice
constexpr std::size_t kMaxLocalName = 107;                 // of a Unix socket
constexpr std::size_t kMaxNumbers = 1 << 16;               // learning rates, sequences by worker
constexpr std::size_t kMaxRows = 1 << 16;
constexpr std::size_t kMaxRow = 1 << 10;

constexpr auto kFirstReason = Values::Reason::applied;
constexpr auto kLastReason = Values::Reason::pulled;
static_assert(std::variant_size_v<Message> <= kFirstReplicaByte);

}  // namespace

void fields(auto& io, MessageOf<Hello> auto& m) {
  io(m.version), io(m.worker), io(m.workers), io(m.server), io(m.servers), io(m.incarnation);
  io(m.process), io(m.chief), io.choice(m.wire, WireType::exact, WireType::bf16);
}
void fields(auto& io, MessageOf<Init> auto& m) { io(m.first_step), io.text(m.spec, kMaxText); }
void fields(auto& io, MessageOf<SetSlice> auto& m) { io(m.slice), io(m.updates); }
void fields(auto& io, MessageOf<TablePiece> auto& m) { io(m.table); }
void fields(auto& io, MessageOf<StepBegin> auto& m) {
  io(m.sequence), io(m.weight), io.list(m.learning_rates, kMaxNumbers);
}
void fields(auto& io, MessageOf<Push> auto& m) {
  io(m.slice), io(m.sequence), io(m.base_version), io(m.region_offset);
}
void fields(auto& io, MessageOf<RowsPush> auto& m) {
  io(m.table), io(m.sequence), io(m.base_version);
}
void fields(auto& io, MessageOf<StepEnd> auto& m) {
  io(m.sequence);
  io.list(m.tally, kMaxRows, 4, [](auto& in_list, auto& row) { in_list.list(row, kMaxRow); });
  io(m.round), io.text(m.stop, kMaxSentence);
}
void fields(auto& io, MessageOf<Pull> auto& m) { io(m.request), io(m.clock), io(m.before); }
void fields(auto& io, MessageOf<RowsPull> auto& m) { io(m.request), io(m.table), io(m.sequence); }
void fields(auto& io, MessageOf<FreezeRequest, AskStats, PullDone, SnapshotDone> auto& m) {
  io(m.request);
}
void fields(auto& io, MessageOf<SnapshotRequest, Frozen> auto& m) {
  io(m.request), io.list(m.sequences, kMaxNumbers);
}
void fields(auto& io, MessageOf<Welcome> auto& m) {
  io(m.initialised), io.text(m.spec, kMaxText), io(m.finished);
}
void fields(auto& io, MessageOf<Values> auto& m) {
  io(m.slice), io(m.sequence), io(m.version), io.choice(m.reason, kFirstReason, kLastReason);
}
void fields(auto& io, MessageOf<RowsDone> auto& m) {
  io(m.table), io(m.sequence), io(m.version), io.choice(m.reason, kFirstReason, kLastReason);
}
void fields(auto& io, MessageOf<Rows> auto& m) { io(m.request), io(m.version); }
void fields(auto& io, MessageOf<StepDone> auto& m) {
  io(m.sequence), io(m.whole), io.list(m.tally, kMaxNumbers), io.text(m.stop, kMaxSentence);
}
void fields(auto& io, MessageOf<SliceState> auto& m) {
  io(m.request), io(m.slice), io(m.version), io(m.updates);
}
void fields(auto& io, MessageOf<Stats> auto& m) { io(m.request), io.text(m.json, kMaxText); }
void fields(auto& io, MessageOf<LocalName> auto& m) { io.text(m.name, kMaxLocalName); }
void fields(auto& io, MessageOf<Refused> auto& m) {
  io(m.fatal), io.text(m.reason, kMaxSentence), io.text(m.advice, kMaxSentence);
}

void encode_into(const Message& message, std::string& control) {
  control.clear();
  encode_tagged(message, 0, control);
}

std::string encode(const Message& message) {
  std::string control;
  encode_into(message, control);
  return control;
}

Message decode_message(std::string_view control) { return decode_tagged<Message>(0, control); }

}  // namespace cohort::ps
