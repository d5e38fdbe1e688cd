#include "cohort/ps/durable/replica_messages.h"

#include "cohort/base/data/byte_io.h"
#include "cohort/ps/durable/log_format.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {
namespace {

constexpr std::size_t kMaxReplicaText = 4096;

void put(std::string& out, const ReplicaHello& hello) {
  ByteWriter(out)
      .integer(hello.version)
      .text(hello.job)
      .integer(hello.server)
      .integer(hello.servers)
      .integer(hello.incarnation)
      .integer(static_cast<std::uint8_t>(hello.fetch));
}
void put(std::string&, const ReplicaPiece&) {}
void put(std::string& out, const ReplicaImageEnd& end) {
  ByteWriter(out).integer(end.index).integer(end.pieces);
}
void put(std::string& out, const ReplicaRecord& record) {
  ByteWriter(out).integer(record.index);
  out += encode_record_head(record.record);
}
void put(std::string& out, const ReplicaWelcome& welcome) {
  ByteWriter(out)
      .integer(static_cast<std::uint8_t>(welcome.has_copy))
      .integer(welcome.incarnation)
      .integer(welcome.applied);
}
void put(std::string& out, const ReplicaAck& ack) { ByteWriter(out).integer(ack.index); }
void put(std::string& out, const ReplicaRefused& refused) {
  ByteWriter(out)
      .integer(static_cast<std::uint8_t>(refused.replaced))
      .text(std::string_view(refused.reason).substr(0, kMaxReplicaText));
}

bool get_bool(ByteReader& reader) {
  auto value = reader.integer<std::uint8_t>();
  if (value > 1) throw ProtocolError(fmt::format("{} is neither true nor false", value));
  return value == 1;
}

ReplicaMessage get(std::size_t kind, std::string_view bytes) {
  ByteReader reader(bytes);
  ReplicaMessage message;
  if (kind == 0) {
    ReplicaHello hello;
    hello.version = reader.integer<std::uint32_t>();
    hello.job = reader.text(kMaxReplicaText);
    hello.server = reader.integer<std::int32_t>();
    hello.servers = reader.integer<std::int32_t>();
    hello.incarnation = reader.integer<std::uint64_t>();
    hello.fetch = get_bool(reader);
    message = hello;
  } else if (kind == 1) {
    message = ReplicaPiece{};
  } else if (kind == 2) {
    ReplicaImageEnd end;
    end.index = reader.integer<std::uint64_t>();
    end.pieces = reader.integer<std::uint64_t>();
    message = end;
  } else if (kind == 3) {
    ReplicaRecord record;
    record.index = reader.integer<std::uint64_t>();
    bytes.remove_prefix(8);
    record.record = decode_record_head(bytes);
    reader = ByteReader(bytes);
    message = std::move(record);
  } else if (kind == 4) {
    ReplicaWelcome welcome;
    welcome.has_copy = get_bool(reader);
    welcome.incarnation = reader.integer<std::uint64_t>();
    welcome.applied = reader.integer<std::uint64_t>();
    message = welcome;
  } else if (kind == 5) {
    message = ReplicaAck{reader.integer<std::uint64_t>()};
  } else if (kind == 6) {
    ReplicaRefused refused;
    refused.replaced = get_bool(reader);
    refused.reason = reader.text(kMaxReplicaText);
    message = refused;
  } else {
    throw ProtocolError(
        fmt::format("no message between servers begins with {}", kind + kFirstReplicaByte));
  }
  reader.expect_end();
  return message;
}

}  // namespace

bool is_replica_message(std::string_view control) {
  return !control.empty() && static_cast<unsigned char>(control[0]) >= kFirstReplicaByte;
}

std::string encode(const ReplicaMessage& message) {
  std::string out(1, static_cast<char>(kFirstReplicaByte + message.index()));
  std::visit([&](const auto& one) { put(out, one); }, message);
  return out;
}

ReplicaMessage decode_replica_message(std::string_view control) {
  if (!is_replica_message(control)) throw ProtocolError("no message between servers");
  return get(static_cast<unsigned char>(control[0]) - kFirstReplicaByte, control.substr(1));
}

}  // namespace cohort::ps
