#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace cohort::report {

// Reads one protocol-buffer message, field by field: the counterpart of Proto. Bytes that are no
// message end it early; nothing throws, and nothing is read behind the end. Thread-compatible; the
// bytes belong to the caller.
//   for (ProtoReader fields(bytes); fields.next();) if (fields.is(5)) use(fields.bytes());
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  bool next();  // false: no more fields
  bool is(int field) const { return field_ == field; }

  // The value, in the form that the caller expects; 0 or "" where the field has another one.
  std::uint64_t integer() const { return wire_ == 0 ? number_ : 0; }
  double number() const;  // double or float
  std::string_view bytes() const { return bytes_; }

 private:
  bool varint(std::uint64_t& value);

  std::string_view rest_;
  int field_ = 0;
  int wire_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace cohort::report
