#include "cohort/report/proto_reader.h"

#include "cohort/base/data/byte_io.h"

namespace cohort::report {
namespace {

constexpr int kReadVarint = 0, kReadFixed64 = 1, kReadSized = 2, kReadFixed32 = 5;

}  // namespace

bool ProtoReader::varint(std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool ProtoReader::next() {
  std::uint64_t key = 0;
  bytes_ = {};
  number_ = 0;
  if (!varint(key)) return false;
  field_ = static_cast<int>(key >> 3 & 0x1fffffff);
  wire_ = static_cast<int>(key & 7);
  if (wire_ == kReadVarint) return varint(number_);
  std::uint64_t size = wire_ == kReadFixed64 ? 8 : 4;
  if (wire_ == kReadSized && !varint(size)) return false;
  const bool known = wire_ == kReadFixed64 || wire_ == kReadSized || wire_ == kReadFixed32;
  if (!known || size > rest_.size()) return false;
  if (wire_ == kReadSized) bytes_ = rest_.substr(0, size);
  if (wire_ == kReadFixed64) number_ = get_integer<std::uint64_t>(rest_.data());
  if (wire_ == kReadFixed32) number_ = get_integer<std::uint32_t>(rest_.data());
  rest_.remove_prefix(size);
  return true;
}

double ProtoReader::number() const {
  if (wire_ == kReadFixed64) return std::bit_cast<double>(number_);
  if (wire_ == kReadFixed32) return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  return 0;
}

}  // namespace cohort::report
