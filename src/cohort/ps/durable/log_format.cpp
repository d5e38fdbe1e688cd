#include "cohort/ps/durable/log_format.h"

#include <bit>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kCrcPlace = 8;
constexpr std::size_t kBatchPlace = kRecordPrefixBytes;
constexpr std::size_t kSmallestRest = 8 + 24;  // batch and an empty body
constexpr std::size_t kMaxEntries = 1 << 20;

// The payload is read where it lies, as numbers of up to 8 bytes.
std::size_t padded(std::size_t size) { return (size + 7) / 8 * 8; }

std::string_view magic_of(LogFileKind kind) {
  return kind == LogFileKind::log ? "COHPSLOG" : "COHPSIMG";
}

std::uint32_t record_crc(std::string_view prefix, std::string_view rest) {
  return crc32c(rest.data(), rest.size(), crc32c(prefix.data(), kCrcPlace));
}

std::size_t count_of(ByteReader& reader, std::size_t bytes_each) {
  auto count = reader.integer<std::uint32_t>();
  if (count > kMaxEntries || count * bytes_each > reader.remaining())
    throw ProtocolError(fmt::format("a record with {} entries", count));
  return count;
}

}  // namespace

std::string encode_header(LogFileKind kind, const LogFileHeader& header) {
  std::string bytes(magic_of(kind));
  ByteWriter(bytes)
      .integer(kFormatVersion)
      .integer(header.server)
      .integer(header.servers)
      .integer(header.number);
  bytes += as_bytes(header.spec);
  ByteWriter(bytes).integer(crc32c(bytes.data(), bytes.size()));
  COHORT_CHECK(bytes.size() == kLogHeaderBytes, "a log's header of {} bytes", bytes.size());
  return bytes;
}

LogFileHeader decode_header(LogFileKind kind, std::string_view bytes) {
  if (bytes.size() != kLogHeaderBytes || !bytes.starts_with(magic_of(kind)))
    throw ProtocolError("no header");
  if (crc32c(bytes.data(), bytes.size() - 4) !=
      get_integer<std::uint32_t>(bytes.data() + bytes.size() - 4))
    throw ProtocolError("a damaged header");
  ByteReader reader(bytes.substr(8));
  auto version = reader.integer<std::uint32_t>();
  if (version != kFormatVersion)
    throw InvalidInput(
        fmt::format("a log of format {}; this program knows {}", version, kFormatVersion),
        {.advice = "Use the version of Cohort that wrote it, or another folder."});
  LogFileHeader header;
  header.server = reader.integer<std::uint32_t>();
  header.servers = reader.integer<std::uint32_t>();
  header.number = reader.integer<std::uint64_t>();
  std::memcpy(header.spec.data(), bytes.data() + kLogHeaderBytes - 4 - header.spec.size(),
              header.spec.size());
  return header;
}

std::string encode_record_head(const UpdateRecord& record) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.integer(static_cast<std::uint8_t>(record.kind))
      .integer(record.target)
      .integer(record.version)
      .integer(static_cast<std::uint32_t>(record.learning_rates.size()));
  for (double rate : record.learning_rates) writer.integer(std::bit_cast<std::uint64_t>(rate));
  writer.integer(static_cast<std::uint32_t>(record.ledger.size()));
  for (auto [worker, sequence] : record.ledger) writer.integer(worker).integer(sequence);
  bytes.resize(padded(bytes.size()));
  return bytes;
}

UpdateRecord decode_record_head(std::string_view& bytes) {
  ByteReader reader(bytes);
  UpdateRecord record;
  auto kind = reader.integer<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(UpdateRecord::Kind::sparse))
    throw ProtocolError(fmt::format("a record of kind {}", kind));
  record.kind = static_cast<UpdateRecord::Kind>(kind);
  record.target = reader.integer<int>();
  record.version = reader.integer<std::uint64_t>();
  record.learning_rates.resize(count_of(reader, 8));
  for (double& rate : record.learning_rates)
    rate = std::bit_cast<double>(reader.integer<std::uint64_t>());
  record.ledger.resize(count_of(reader, 12));
  for (auto& [worker, sequence] : record.ledger) {
    worker = reader.integer<int>();
    sequence = reader.integer<std::uint64_t>();
  }
  std::size_t used = bytes.size() - reader.remaining();
  if (padded(used) > bytes.size()) throw ProtocolError("a record ends too early");
  bytes.remove_prefix(padded(used));
  return record;
}

std::string encode_record(const UpdateRecord& record) {
  std::string head = encode_record_head(record);
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
  stored.record = decode_record_head(rest);
  stored.record.payload = std::as_bytes(std::span(rest));
  return stored;
}

std::uint32_t piece_crc(PieceKind kind, std::string_view bytes) {
  std::string head;
  ByteWriter(head)
      .integer(static_cast<std::uint8_t>(kind))
      .integer(static_cast<std::uint32_t>(bytes.size()));
  return crc32c(bytes.data(), bytes.size(), crc32c(head.data(), head.size()));
}

std::string encode_piece_prefix(PieceKind kind, std::string_view bytes) {
  COHORT_CHECK(bytes.size() <= kMaxPieceBytes, "a snapshot's piece of {} bytes", bytes.size());
  std::string prefix;
  ByteWriter(prefix)
      .integer(static_cast<std::uint8_t>(kind))
      .integer(static_cast<std::uint32_t>(bytes.size()))
      .integer(piece_crc(kind, bytes));
  return prefix;
}

PiecePrefix decode_piece_prefix(std::string_view bytes) {
  ByteReader reader(bytes);
  PiecePrefix prefix;
  auto kind = reader.integer<std::uint8_t>();
  prefix.length = reader.integer<std::uint32_t>();
  prefix.crc = reader.integer<std::uint32_t>();
  if (kind < 1 || kind > 2 || prefix.length > kMaxPieceBytes)
    throw ProtocolError("no piece of a snapshot");
  prefix.kind = static_cast<PieceKind>(kind);
  return prefix;
}

}  // namespace cohort::ps
