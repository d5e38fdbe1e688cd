#include "cohort/ps/durable/log_format.h"

#include "cohort/base/data/crc32c.h"
#include "cohort/base/data/fields.h"
#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kCrcPlace = 8;
constexpr std::size_t kBatchPlace = kRecordPrefixBytes;
constexpr std::size_t kSmallestRest = 8 + 24;  // batch and an empty body

std::string_view magic_of(LogFileKind kind) {
  return kind == LogFileKind::log ? "COHPSLOG" : "COHPSIMG";
}

std::uint32_t record_crc(std::string_view prefix, std::string_view rest) {
  return crc32c(rest.data(), rest.size(), crc32c(prefix.data(), kCrcPlace));
}

}  // namespace

void fields(auto& io, MessageOf<LogFileHeader> auto& header) {
  io(header.server), io(header.servers), io(header.number), io.array(header.spec);
}

void fields(auto& io, MessageOf<PiecePrefix> auto& prefix) {
  io.choice(prefix.kind, PieceKind::piece, PieceKind::end), io(prefix.length), io(prefix.crc);
  io.expect(prefix.length <= kMaxPieceBytes, [] { return "no piece of a snapshot"; });
}

std::string encode_header(LogFileKind kind, const LogFileHeader& header) {
  std::string bytes(magic_of(kind));
  FieldWriter write(bytes);
  write(kFormatVersion), write(header), write(crc32c(bytes.data(), bytes.size()));
  COHORT_CHECK(bytes.size() == kLogHeaderBytes, "a log's header of {} bytes", bytes.size());
  return bytes;
}

LogFileHeader decode_header(LogFileKind kind, std::string_view bytes) {
  if (bytes.size() != kLogHeaderBytes || !bytes.starts_with(magic_of(kind)))
    throw ProtocolError("no header");
  FieldReader read(bytes.substr(magic_of(kind).size()));
  std::uint32_t version = 0, crc = 0;
  LogFileHeader header;
  read(version), read(header), read(crc);
  if (crc != crc32c(bytes.data(), bytes.size() - sizeof crc))
    throw ProtocolError("a damaged header");
  if (version != kFormatVersion)
    throw InvalidInput(
        fmt::format("a log of format {}; this program knows {}", version, kFormatVersion),
        {.advice = "Use the version of Cohort that wrote it, or another folder."});
  return header;
}

std::string encode_record(const UpdateRecord& record) {
  const std::string head = encode_fields(record);
  std::size_t length = 8 + head.size() + record.payload.size();
  if (length > kMaxRecordBytes)
    throw InvalidInput(
        fmt::format("an update of {} bytes; a log takes {}", length, kMaxRecordBytes),
        {.advice = "Push fewer rows at a time."});
  std::string bytes;
  bytes.reserve(kRecordPrefixBytes + length);
  ByteWriter(bytes)
      .integer(kRecordMagic)
      .integer(static_cast<std::uint32_t>(length))
      .integer(std::uint32_t{0})
      .integer(std::uint64_t{0});
  bytes += head;
  bytes.append(reinterpret_cast<const char*>(record.payload.data()), record.payload.size());
  return bytes;
}

void seal_record(std::string& bytes, std::uint64_t batch) {
  put_integer(batch, bytes.data() + kBatchPlace);
  put_integer(record_crc(bytes, std::string_view(bytes).substr(kRecordPrefixBytes)),
              bytes.data() + kCrcPlace);
}

std::optional<std::size_t> record_length(std::string_view prefix) {
  if (prefix.size() < kRecordPrefixBytes ||
      get_integer<std::uint32_t>(prefix.data()) != kRecordMagic)
    return std::nullopt;
  std::size_t length = get_integer<std::uint32_t>(prefix.data() + 4);
  if (length < kSmallestRest || length > kMaxRecordBytes) return std::nullopt;
  return length;
}

std::optional<StoredRecord> decode_record(std::string_view prefix, std::string_view rest) {
  if (record_crc(prefix, rest) != get_integer<std::uint32_t>(prefix.data() + kCrcPlace))
    return std::nullopt;
  StoredRecord stored;
  stored.batch = get_integer<std::uint64_t>(rest.data());
  rest.remove_prefix(8);
  FieldReader read(rest);
  read(stored.record);
  stored.record.payload = std::as_bytes(std::span(rest.substr(rest.size() - read.remaining())));
  return stored;
}

std::uint32_t piece_crc(PieceKind kind, std::string_view bytes) {
  std::string head;
  FieldWriter write(head);
  write(kind), write(static_cast<std::uint32_t>(bytes.size()));
  return crc32c(bytes.data(), bytes.size(), crc32c(head.data(), head.size()));
}

std::string encode_piece_prefix(PieceKind kind, std::string_view bytes) {
  COHORT_CHECK(bytes.size() <= kMaxPieceBytes, "a snapshot's piece of {} bytes", bytes.size());
  return encode_fields(
      PiecePrefix{kind, static_cast<std::uint32_t>(bytes.size()), piece_crc(kind, bytes)});
}

PiecePrefix decode_piece_prefix(std::string_view bytes) {
  return decode_fields<PiecePrefix>(bytes);
}

}  // namespace cohort::ps
