#include "cohort/ps/durable/log_format.h"

#include <gtest/gtest.h>

#include "cohort/base/data/hex_test.h"
#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

UpdateRecord sample(std::span<const std::byte> payload) {
  UpdateRecord record;
  record.kind = UpdateRecord::Kind::sparse;
  record.target = 7;
  record.version = 1234567890123;
  record.learning_rates = {0.1, -0.0, 1e-300};
  record.ledger = {{0, 5}, {3, 1ull << 60}};
  record.payload = payload;
  return record;
}

std::optional<StoredRecord> decode(std::string_view bytes) {
  auto length = record_length(bytes.substr(0, kRecordPrefixBytes));
  if (!length || *length + kRecordPrefixBytes != bytes.size()) return std::nullopt;
  return decode_record(bytes.substr(0, kRecordPrefixBytes), bytes.substr(kRecordPrefixBytes));
}

TEST(LogFormat, ARecordComesBackAsItWas) {
  const char payload[] = "a gradient";
  std::string bytes = encode_record(sample(std::as_bytes(std::span(payload))));
  seal_record(bytes, 4096);
  auto stored = decode(bytes);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->batch, 4096u);
  EXPECT_EQ(stored->record.kind, UpdateRecord::Kind::sparse);
  EXPECT_EQ(stored->record.target, 7);
  EXPECT_EQ(stored->record.version, 1234567890123u);
  EXPECT_EQ(stored->record.learning_rates, (std::vector<double>{0.1, -0.0, 1e-300}));
  EXPECT_EQ(stored->record.ledger, (LedgerEntries{{0, 5}, {3, 1ull << 60}}));
  EXPECT_EQ(0, std::memcmp(stored->record.payload.data(), payload, sizeof payload));
  EXPECT_EQ(stored->record.payload.size(), sizeof payload);
  EXPECT_EQ((bytes.size() - sizeof payload - kRecordPrefixBytes) % 8, 0u)
      << "f64 are read in place";
}

TEST(LogFormat, AnyChangedBitOfARecordIsNoticed) {
  const char payload[] = "a gradient";
  std::string bytes = encode_record(sample(std::as_bytes(std::span(payload))));
  seal_record(bytes, 64);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode(damaged)) << "bit " << bit;
  }
}

TEST(LogFormat, AnyChangedByteOfAHeaderIsNoticed) {
  LogFileHeader header{.number = 9, .server = 1, .servers = 3, .spec = sha256("model")};
  std::string bytes = encode_header(LogFileKind::snapshot, header);
  EXPECT_EQ(decode_header(LogFileKind::snapshot, bytes), header);
  EXPECT_THROW(decode_header(LogFileKind::log, bytes), ProtocolError);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_THROW(decode_header(LogFileKind::snapshot, damaged), ProtocolError) << "byte " << i;
    EXPECT_THROW(decode_header(LogFileKind::snapshot, bytes.substr(0, i)), ProtocolError);
  }
}

// Logs and snapshots of earlier versions are read again.
TEST(LogFormat, BytesInAFileStayAsTheyAre) {
  const char payload[] = "a gradient";
  std::string bytes = encode_record(sample(std::as_bytes(std::span(payload))));
  seal_record(bytes, 4096);
  EXPECT_EQ(to_hex(bytes),
            "504c52315b000000b002d3a900100000000000000107000000cb04fb711f010000030000009a9999"
            "999999b93f000000000000008059f3f8c21f6ea50102000000000000000500000000000000030000"
            "00000000000000001000000061206772616469656e7400");
  Digest spec;
  for (std::size_t i = 0; i < spec.size(); ++i) spec[i] = static_cast<std::uint8_t>(i);
  const LogFileHeader header{.number = 9, .server = 1, .servers = 3, .spec = spec};
  EXPECT_EQ(to_hex(encode_header(LogFileKind::log, header)),
            "434f4850534c4f470100000001000000030000000900000000000000000102030405060708090a0b"
            "0c0d0e0f101112131415161718191a1b1c1d1e1f89666543");
  EXPECT_EQ(to_hex(encode_header(LogFileKind::snapshot, header)),
            "434f485053494d470100000001000000030000000900000000000000000102030405060708090a0b"
            "0c0d0e0f101112131415161718191a1b1c1d1e1f641cb7e9");
  EXPECT_EQ(to_hex(encode_piece_prefix(PieceKind::piece, "bytes")), "010500000012756697");
}

}  // namespace
}  // namespace cohort::ps
