#include "cohort/report/proto.h"

#include "cohort/base/data/byte_io.h"

namespace cohort::report {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kSized = 2;
constexpr int kFixed32 = 5;

}  // namespace

void Proto::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void Proto::key(int field, int wire_type) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

Proto& Proto::integer(int field, std::uint64_t value) {
  key(field, kVarint);
  varint(value);
  return *this;
}

Proto& Proto::number(int field, double value) {
  key(field, kFixed64);
  ByteWriter(bytes_).integer(std::bit_cast<std::uint64_t>(value));
  return *this;
}

Proto& Proto::number(int field, float value) {
  key(field, kFixed32);
  ByteWriter(bytes_).integer(std::bit_cast<std::uint32_t>(value));
  return *this;
}

Proto& Proto::text(int field, std::string_view value) {
  key(field, kSized);
  varint(value.size());
  bytes_ += value;
  return *this;
}

Proto& Proto::numbers(int field, std::span<const double> values) {
  key(field, kSized);
  varint(values.size() * sizeof(double));
  for (double value : values) ByteWriter(bytes_).integer(std::bit_cast<std::uint64_t>(value));
  return *this;
}

}  // namespace cohort::report
