#include "cohort/collective/native/wire_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cohort::collective {

static_assert(std::endian::native == std::endian::little);

// Eight 8-byte fields, the last one the length of the text; then the text.
WireRecord::Bytes WireRecord::encode() const {
  Bytes bytes{};
  const std::uint64_t kinds = static_cast<std::uint64_t>(record.kind) |
                              static_cast<std::uint64_t>(record.dtype) << 8 |
                              static_cast<std::uint64_t>(record.op) << 16;
  const std::size_t length = std::min(mismatch.size(), kPayloadBytes);
  const std::uint64_t fields[8] = {kinds,
                                   static_cast<std::uint32_t>(record.root),
                                   record.count,
                                   std::bit_cast<std::uint64_t>(record.pre_scale),
                                   std::bit_cast<std::uint64_t>(record.post_scale),
                                   record.call_sequence,
                                   record.counts_hash,
                                   length};
  std::memcpy(bytes.data(), fields, sizeof fields);
  std::memcpy(bytes.data() + kPayloadAt, mismatch.data(), length);
  return bytes;
}

std::optional<WireRecord> WireRecord::decode(const Bytes& bytes) {
  std::uint64_t fields[8];
  std::memcpy(fields, bytes.data(), sizeof fields);
  const auto kind = static_cast<unsigned>(fields[0] & 0xff);
  const auto dtype = static_cast<unsigned>(fields[0] >> 8 & 0xff);
  const auto op = static_cast<unsigned>(fields[0] >> 16 & 0xff);
  if (kind > static_cast<unsigned>(CallKind::scatter) ||
      dtype > static_cast<unsigned>(DataType::boolean) ||
      op > static_cast<unsigned>(ReduceOp::product) || fields[0] >> 24 != 0 ||
      fields[7] > kPayloadBytes)
    return std::nullopt;
  WireRecord result;
  result.record.kind = static_cast<CallKind>(kind);
  result.record.dtype = static_cast<DataType>(dtype);
  result.record.op = static_cast<ReduceOp>(op);
  result.record.root = static_cast<std::int32_t>(fields[1]);
  result.record.count = fields[2];
  result.record.pre_scale = std::bit_cast<double>(fields[3]);
  result.record.post_scale = std::bit_cast<double>(fields[4]);
  result.record.call_sequence = fields[5];
  result.record.counts_hash = fields[6];
  result.mismatch.assign(reinterpret_cast<const char*>(bytes.data()) + kPayloadAt, fields[7]);
  return result;
}

}  // namespace cohort::collective
