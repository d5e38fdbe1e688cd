#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "cohort/base/error.h"

// Fixed-width integers (little-endian) and sized texts, to and from bytes.
namespace cohort {

template <typename T>
void put_integer(T value, char* out) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

template <typename T>
T get_integer(const char* in) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i));
  return value;
}

// Appends to a string that the caller owns.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  template <typename T>
  ByteWriter& integer(T value) {
    char bytes[sizeof(T)];
    put_integer(static_cast<std::make_unsigned_t<T>>(value), bytes);
    out_.append(bytes, sizeof bytes);
    return *this;
  }
  // A 32-bit length, then the bytes.
  ByteWriter& text(std::string_view bytes) {
    integer(static_cast<std::uint32_t>(bytes.size()));
    out_.append(bytes);
    return *this;
  }

 private:
  std::string& out_;
};

// Reads what ByteWriter wrote. Every length is checked against its bound and against what is there
// before anything is copied; ProtocolError otherwise.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T integer() {
    if (rest_.size() < sizeof(T)) throw ProtocolError("a message ends too early");
    auto value = get_integer<std::make_unsigned_t<T>>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  // Valid as long as the bytes given to the constructor.
  std::string_view text(std::size_t max_size) {
    auto size = integer<std::uint32_t>();
    if (size > max_size)
      throw ProtocolError(fmt::format("a field of {} bytes; at most {} allowed", size, max_size));
    if (size > rest_.size()) throw ProtocolError("a message ends too early");
    auto bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::size_t remaining() const { return rest_.size(); }
  void expect_end() const {
    if (!rest_.empty())
      throw ProtocolError(fmt::format("{} bytes too many in a message", rest_.size()));
  }

 private:
  std::string_view rest_;
};

}  // namespace cohort
