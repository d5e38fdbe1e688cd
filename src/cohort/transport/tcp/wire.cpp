#include "cohort/transport/tcp/wire.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/data/fields.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/transport/tcp/options.h"

namespace cohort::transport::tcp {

std::uint64_t chunks_of(std::uint64_t size) {
  return std::max<std::uint64_t>(1, (size + kChunkBytes - 1) / kChunkBytes);
}

void fields(auto& io, MessageOf<ChunkHeader> auto& header) {
  io(header.number), io(header.size), io(header.offset), io(header.length), io(header.crc);
  io.expect(header.size <= kMaxMessage, [&] {
    return fmt::format("a message of {} bytes is announced; at most {} are allowed", header.size,
                       kMaxMessage);
  });
  io.expect(header.offset % kChunkBytes == 0 &&
                header.offset / kChunkBytes < chunks_of(header.size) &&
                header.length == std::min<std::uint64_t>(kChunkBytes, header.size - header.offset),
            [&] {
              return fmt::format("a chunk of {} bytes at {} does not fit a message of {} bytes",
                                 header.length, header.offset, header.size);
            });
}

void fields(auto& io, MessageOf<Goodbye> auto& goodbye) {
  io.choice(goodbye.kind, Goodbye::Kind::left, Goodbye::Kind::protocol, "kind of goodbye");
  io(goodbye.notice.kind), io(goodbye.notice.culprit);
  io.text(goodbye.notice.text, kMaxGoodbyeText);
}

namespace {

constexpr unsigned kFirstKind = 1;  // of a control frame

}  // namespace

std::string encode(Control control) {
  if (auto* goodbye = std::get_if<Goodbye>(&control))
    if (goodbye->notice.text.size() > kMaxGoodbyeText) goodbye->notice.text.resize(kMaxGoodbyeText);
  std::string bytes;
  encode_tagged(control, kFirstKind, bytes);
  return bytes;
}

Control decode_control(std::string_view payload) {
  Control control = decode_tagged<Control>(kFirstKind, payload);
  if (auto* goodbye = std::get_if<Goodbye>(&control))
    for (char& c : goodbye->notice.text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';  // it is printed
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
