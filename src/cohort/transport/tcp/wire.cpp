#include "cohort/transport/tcp/wire.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/transport/tcp/messenger.h"

namespace cohort::transport::tcp {

namespace {

enum class Kind : std::uint8_t { chunk = 1, goodbye = 2, beat = 3 };

ChunkHeader decode_chunk(ByteReader& reader) {
  ChunkHeader header;
  header.number = reader.integer<std::uint64_t>();
  header.size = reader.integer<std::uint64_t>();
  header.offset = reader.integer<std::uint64_t>();
  header.length = reader.integer<std::uint32_t>();
  header.crc = reader.integer<std::uint32_t>();
  if (header.size > kMaxMessage)
    throw ProtocolError(fmt::format("a message of {} bytes is announced; at most {} are allowed",
                                    header.size, kMaxMessage));
  const bool placed =
      header.offset % kChunkBytes == 0 && header.offset / kChunkBytes < chunks_of(header.size) &&
      header.length == std::min<std::uint64_t>(kChunkBytes, header.size - header.offset);
  if (!placed)
    throw ProtocolError(fmt::format("a chunk of {} bytes at {} does not fit a message of {} bytes",
                                    header.length, header.offset, header.size));
  return header;
}

Goodbye decode_goodbye(ByteReader& reader) {
  Goodbye goodbye;
  const auto kind = reader.integer<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(Goodbye::Kind::protocol))
    throw ProtocolError(fmt::format("{} is no kind of goodbye", kind));
  goodbye.kind = static_cast<Goodbye::Kind>(kind);
  goodbye.notice.kind = reader.integer<std::uint32_t>();
  goodbye.notice.culprit = reader.integer<std::int32_t>();
  goodbye.notice.text = reader.text(kMaxGoodbyeText);
  for (char& c : goodbye.notice.text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';  // it is printed
  return goodbye;
}

}  // namespace

std::uint64_t chunks_of(std::uint64_t size) {
  return std::max<std::uint64_t>(1, (size + kChunkBytes - 1) / kChunkBytes);
}

std::string encode(const ChunkHeader& header) {
  std::string bytes;
  ByteWriter(bytes)
      .integer(static_cast<std::uint8_t>(Kind::chunk))
      .integer(header.number)
      .integer(header.size)
      .integer(header.offset)
      .integer(header.length)
      .integer(header.crc);
  return bytes;
}

std::string encode(const Goodbye& goodbye) {
  std::string bytes;
  ByteWriter(bytes)
      .integer(static_cast<std::uint8_t>(Kind::goodbye))
      .integer(static_cast<std::uint8_t>(goodbye.kind))
      .integer(goodbye.notice.kind)
      .integer(static_cast<std::int32_t>(goodbye.notice.culprit))
      .text(std::string_view(goodbye.notice.text).substr(0, kMaxGoodbyeText));
  return bytes;
}

std::string encode(const Beat&) { return {static_cast<char>(Kind::beat)}; }

Control decode_control(std::string_view payload) {
  ByteReader reader(payload);
  const auto kind = reader.integer<std::uint8_t>();
  Control control;
  if (kind == static_cast<std::uint8_t>(Kind::chunk))
    control = decode_chunk(reader);
  else if (kind == static_cast<std::uint8_t>(Kind::goodbye))
    control = decode_goodbye(reader);
  else if (kind == static_cast<std::uint8_t>(Kind::beat))
    control = Beat{};
  else
    throw ProtocolError(fmt::format("{} is no kind of frame", kind));
  reader.expect_end();
  return control;
}

std::string encode(const Purpose& purpose) {
  return fmt::format("{} {} {} {} {} {} {}", purpose.group, purpose.rank, purpose.size,
                     static_cast<int>(purpose.lane), purpose.stream, purpose.streams, purpose.name)
      .substr(0, kMaxIdentity);
}

std::optional<Purpose> decode_purpose(std::string_view identity) {
  const auto words = split(identity, ' ');
  if (words.size() < 6) return std::nullopt;
  std::array<int, 5> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = parse_unsigned(words[i + 1]);
    if (!number || *number > 1'000'000) return std::nullopt;
    numbers[i] = static_cast<int>(*number);
  }
  const auto [rank, size, lane, stream, streams] = numbers;
  if (rank >= size || lane > 1 || streams > kMaxStreams || stream >= streams) return std::nullopt;
  return Purpose{words[0],
                 rank,
                 size,
                 static_cast<Lane>(lane),
                 stream,
                 streams,
                 join({words.begin() + 6, words.end()}, " ")};
}

std::string group_tag(const std::string& id) {
  std::string tag;
  const Digest digest = sha256(id);
  for (std::size_t i = 0; i < 8; ++i) tag += fmt::format("{:02x}", digest[i]);
  return tag;
}

}  // namespace cohort::transport::tcp
