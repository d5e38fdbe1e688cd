#include "cohort/ps/durable/replica_messages.h"

#include "cohort/base/data/fields.h"
#include "cohort/ps/durable/log_format.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {
namespace {

constexpr std::size_t kMaxReplicaText = 4096;

}  // namespace

void fields(auto& io, MessageOf<ReplicaHello> auto& m) {
  io(m.version), io.text(m.job, kMaxReplicaText), io(m.server), io(m.servers);
  io(m.incarnation), io(m.fetch);
}
void fields(auto& io, MessageOf<ReplicaImageEnd> auto& m) { io(m.index), io(m.pieces); }
void fields(auto& io, MessageOf<ReplicaRecord> auto& m) { io(m.index), io(m.record); }
void fields(auto& io, MessageOf<ReplicaWelcome> auto& m) {
  io(m.has_copy), io(m.incarnation), io(m.applied);
}
void fields(auto& io, MessageOf<ReplicaAck> auto& m) { io(m.index); }
void fields(auto& io, MessageOf<ReplicaRefused> auto& m) {
  io(m.replaced), io.text(m.reason, kMaxReplicaText);
}

bool is_replica_message(std::string_view control) {
  return !control.empty() && static_cast<unsigned char>(control[0]) >= kFirstReplicaByte;
}

std::string encode(ReplicaMessage message) {
  if (auto* refused = std::get_if<ReplicaRefused>(&message))
    if (refused->reason.size() > kMaxReplicaText) refused->reason.resize(kMaxReplicaText);
  std::string out;
  encode_tagged(message, kFirstReplicaByte, out);
  return out;
}

ReplicaMessage decode_replica_message(std::string_view control) {
  return decode_tagged<ReplicaMessage>(kFirstReplicaByte, control);
}

}  // namespace cohort::ps
