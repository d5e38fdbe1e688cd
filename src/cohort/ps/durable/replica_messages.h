#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "cohort/ps/state/server_state.h"

// What a server says to the one that holds its copy (docs/formats.md): control parts of
// Connection's messages, the first byte from kFirstReplicaByte on. Pure values and functions.
namespace cohort::ps {

constexpr std::uint32_t kReplicaVersion = 1;

// ---- from the server whose state it is, the primary

// The first message. `fetch`: it was started anew and wants its copy back; the primary before it is
// shut out from then on. Otherwise records will follow.
struct ReplicaHello {
  std::uint32_t version = kReplicaVersion;
  std::string job;
  std::int32_t server = 0;
  std::int32_t servers = 1;
  std::uint64_t incarnation = 0;  // given by the answer to a fetch; a larger one replaces a smaller
  bool fetch = false;
};
struct ReplicaPiece {};  // both ways. bulk: a piece of write_snapshot()
// Both ways: that was all of them. The state is as after the record with this index.
struct ReplicaImageEnd {
  std::uint64_t index = 0;
  std::uint64_t pieces = 0;
};
struct ReplicaRecord {      // bulk: the payload
  std::uint64_t index = 0;  // one more than the one before
  UpdateRecord record;      // without its payload
};

// ---- from the holder

struct ReplicaWelcome {
  bool has_copy = false;          // to a fetch: pieces and ReplicaImageEnd follow
  std::uint64_t incarnation = 0;  // to a fetch: what the primary shall call itself; else the copy's
  std::uint64_t applied = 0;      // index of the last record in the copy
};
struct ReplicaAck {
  std::uint64_t index = 0;  // all up to it are in the copy
};
struct ReplicaRefused {
  bool replaced = false;  // by a newer primary
  std::string reason;
};

using ReplicaMessage = std::variant<ReplicaHello, ReplicaPiece, ReplicaImageEnd, ReplicaRecord,
                                    ReplicaWelcome, ReplicaAck, ReplicaRefused>;

bool is_replica_message(std::string_view control);
std::string encode(ReplicaMessage message);  // a reason is cut to what is read again
// Throws ProtocolError for anything that encode() does not write.
ReplicaMessage decode_replica_message(std::string_view control);

}  // namespace cohort::ps
