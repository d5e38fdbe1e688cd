#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort::report {

// Builds one protocol-buffer message, field by field, in the wire format: as much of it as
// TensorBoard's messages need. A nested message is another Proto. Thread-compatible; cannot fail.
class Proto {
 public:
  Proto& integer(int field, std::uint64_t value);  // int64, uint64, enum, bool
  Proto& number(int field, double value);
  Proto& number(int field, float value);
  Proto& text(int field, std::string_view value);  // string, bytes
  Proto& message(int field, const Proto& value) { return text(field, value.bytes_); }
  Proto& numbers(int field, std::span<const double> values);  // packed

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, int wire_type);

  std::string bytes_;
};

}  // namespace cohort::report
