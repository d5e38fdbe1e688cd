#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/data/fields.h"
#include "cohort/ps/state/server_state.h"

// The bytes of a parameter server's log files and snapshots (docs/formats.md). Pure functions.
// Failure: ProtocolError for bytes that no server wrote like this; what to make of it depends on
// where they lie (log_recovery.h).
namespace cohort::ps {

enum class LogFileKind { log, snapshot };

// Both kinds of file begin with it. A log's number is that of the snapshot that it follows, or one
// more than the log before.
struct LogFileHeader {
  std::uint64_t number = 0;
  std::uint32_t server = 0;
  std::uint32_t servers = 1;
  Digest spec{};  // SHA-256 of the model's text

  bool operator==(const LogFileHeader&) const = default;
};

constexpr std::size_t kLogHeaderBytes = 64;
std::string encode_header(LogFileKind kind, const LogFileHeader& header);
// InvalidInput for a whole header of a format that this program does not know.
LogFileHeader decode_header(LogFileKind kind, std::string_view bytes);

// A record in a log: magic u32 | length u32 | crc u32 | batch u64 | body, `length` counting batch
// and body. `batch` is the place in the file of the first record that was written and synced
// together with this one: whatever lies before it was durable when this record was written.
constexpr std::uint32_t kRecordMagic = 0x31524c50;  // "PLR1"
constexpr std::size_t kRecordPrefixBytes = 12;
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 30;

struct StoredRecord {
  std::uint64_t batch = 0;
  UpdateRecord record;  // its payload lies in the bytes that were decoded
};

// All of a record but its payload, which follows these bytes and is read where it lies, as numbers
// of up to 8 bytes.
constexpr std::size_t kMaxRecordEntries = 1 << 20;
void fields(auto& io, MessageOf<UpdateRecord> auto& record) {
  io.choice(record.kind, UpdateRecord::Kind::dense, UpdateRecord::Kind::sparse);
  io(record.target), io(record.version), io.list(record.learning_rates, kMaxRecordEntries);
  io.list(record.ledger, kMaxRecordEntries, 12, [](auto& list, auto& entry) { list(entry); });
  io.pad(8);
}

// Whole but for batch and crc, which seal_record() puts in once the place in the file is known.
// Throws InvalidInput when it is longer than kMaxRecordBytes.
std::string encode_record(const UpdateRecord& record);
void seal_record(std::string& bytes, std::uint64_t batch);

// The number of bytes that follow the prefix; nothing for bytes that begin no record.
std::optional<std::size_t> record_length(std::string_view prefix);
// Nothing when the checksum is wrong.
std::optional<StoredRecord> decode_record(std::string_view prefix, std::string_view rest);

// A piece in a snapshot: kind u8 | length u32 | crc u32 | bytes. The last has the number of those
// before it.
enum class PieceKind : std::uint8_t { piece = 1, end = 2 };
constexpr std::size_t kPiecePrefixBytes = 9;
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;
std::string encode_piece_prefix(PieceKind kind, std::string_view bytes);
struct PiecePrefix {
  PieceKind kind = PieceKind::piece;
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
};
PiecePrefix decode_piece_prefix(std::string_view bytes);
std::uint32_t piece_crc(PieceKind kind, std::string_view bytes);

}  // namespace cohort::ps
