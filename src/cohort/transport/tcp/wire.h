#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "cohort/base/net/handshake.h"
#include "cohort/transport/messenger.h"

// The messenger's bytes (docs/wire.md). After the handshake each direction of a connection is a
// row of control frames (base/frame_codec.h: length, sequence, MAC); the frame of a chunk is
// followed by the chunk's bytes as they are. Pure functions.
namespace cohort::transport::tcp {

constexpr std::uint32_t kProtocol = protocol_id("MSGR");

// A message travels in chunks of this size, the last one shorter; an empty message is one empty
// chunk. Large enough to make frames cheap, small enough for checksum and copy to meet in cache.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxMessage = std::size_t{1} << 46;

constexpr std::size_t kMaxGoodbyeText = 800;
constexpr std::size_t kMaxControl = 1024;  // payload of a control frame

struct ChunkHeader {
  std::uint64_t number = 0;  // of the message, among those of its sender, peer and lane
  std::uint64_t size = 0;    // of the message
  std::uint64_t offset = 0;  // of the chunk in it
  std::uint32_t length = 0;
  std::uint32_t crc = 0;  // CRC-32C of the chunk's bytes

  bool operator==(const ChunkHeader&) const = default;
};

// The last frame of a connection.
struct Goodbye {
  enum class Kind : std::uint8_t { left, aborted, protocol };
  Kind kind = Kind::left;
  AbortNotice notice;  // of `left` and `protocol` only the text
};

// "I am here": nothing follows from it but that bytes arrive.
struct Beat {};

using Control = std::variant<ChunkHeader, Goodbye, Beat>;

// The text of a goodbye is cut to kMaxGoodbyeText.
std::string encode(Control control);
// Throws ProtocolError; a header that it returns is consistent in itself.
Control decode_control(std::string_view payload);

std::uint64_t chunks_of(std::uint64_t size);

// What a connection is for, told and proven in the handshake as its identity.
struct Purpose {
  std::string group;  // group_tag()
  int rank = 0;       // of the side that speaks
  int size = 1;
  Lane lane = Lane::collective;
  int stream = 0;
  int streams = 1;
  std::string name;  // of the side that speaks, for people; cut to what fits

  bool operator==(const Purpose&) const = default;
};
std::string encode(const Purpose& purpose);
std::optional<Purpose> decode_purpose(std::string_view identity);

// A short text that stands for the group's id.
std::string group_tag(const std::string& id);

}  // namespace cohort::transport::tcp
