#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"

// A message's fields, listed once and used to write and to read it:
//
//   struct Greeting { std::uint32_t version; std::string name; };
//   void fields(auto& io, MessageOf<Greeting> auto& m) { io(m.version), io.text(m.name, 64); }
//
//   std::string bytes = encode_fields(greeting);
//   Greeting greeting = decode_fields<Greeting>(bytes);
//
// fields() lies in the message's own namespace (not in an anonymous one: it is found through its
// argument). `io` is a FieldWriter or a FieldReader; both have the same calls:
//
//   io(x)                 an integer (little-endian, its own width), bool (u8), double (its bits),
//                         enum (u8), duration (its count as i64), pair, or message with fields()
//   io.choice(x, a, b)    an enum between a and b; its name, for errors, may follow
//   io.text(x, max)       u32 length, bytes
//   io.list(x, max)       u32 count, numbers; with a function for items of another kind
//   io.array(x)           bytes of fixed number
//   io.narrow(x, width)   an unsigned number in `width` bytes
//   io.pad(n)             bytes up to the next multiple of n, counted from the first field
//   io.expect(ok, what)   what must hold for the fields read so far
//
// Failure: reading throws ProtocolError, and takes memory only for what the bytes really hold.
// Writing throws InvalidInput for a text or list over the bound that the reader checks.
// Values; each confined to one thread.
namespace cohort {

template <typename M, typename... T>
concept MessageOf = (std::same_as<std::remove_const_t<M>, T> || ...);

namespace detail {

template <typename T>
inline constexpr bool is_duration = false;
template <typename Rep, typename Period>
inline constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;

template <typename T>
inline constexpr bool is_pair = false;
template <typename A, typename B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

}  // namespace detail

// Appends to a string that the caller owns.
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  explicit FieldWriter(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>)
      integer(static_cast<std::uint8_t>(value));
    else if constexpr (std::is_integral_v<T>)
      integer(static_cast<std::make_unsigned_t<T>>(value));
    else if constexpr (std::is_same_v<T, double>)
      integer(std::bit_cast<std::uint64_t>(value));
    else if constexpr (detail::is_duration<T>)
      integer(static_cast<std::uint64_t>(value.count()));
    else if constexpr (detail::is_pair<T>)
      (*this)(value.first), (*this)(value.second);
    else if constexpr (!std::is_empty_v<T>)
      fields(*this, value);
  }
  template <typename E>
  void choice(const E& value, E /*first*/, E /*last*/, const char* /*what*/ = "") {
    (*this)(value);
  }
  void text(std::string_view value, std::size_t max) {
    check(value.size(), max);
    integer(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void list(const std::vector<T>& values, std::size_t max) {
    list(values, max, sizeof(T), [](auto& io, const T& value) { io(value); });
  }
  // `smallest`: bytes of the shortest item. `item(io, value)` writes or reads one.
  template <typename T, typename Item>
  void list(const std::vector<T>& values, std::size_t max, std::size_t /*smallest*/, Item item) {
    check(values.size(), max);
    integer(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) item(*this, value);
  }
  template <std::size_t N>
  void array(const std::array<std::uint8_t, N>& value) {
    append(reinterpret_cast<const char*>(value.data()), N);
  }
  template <typename T>
  void narrow(const T& value, std::size_t width) {
    char bytes[8];
    put_integer(static_cast<std::uint64_t>(value), bytes);
    append(bytes, width);
  }
  void pad(std::size_t multiple) {
    while (written_ % multiple != 0) append("", 1);
  }
  template <typename What>
  void expect(bool /*ok*/, const What& /*what*/) {}

 private:
  template <typename T>
  void integer(T value) {
    char bytes[sizeof(T)];
    put_integer(value, bytes);
    append(bytes, sizeof bytes);
  }
  void append(const char* bytes, std::size_t count) {
    out_.append(bytes, count);
    written_ += count;
  }
  static void check(std::size_t size, std::size_t max) {
    if (size > max)
      throw InvalidInput(
          fmt::format("a message has a list or text of {}; at most {} allowed", size, max));
  }

  std::string& out_;
  std::size_t written_ = 0;
};

class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(std::string_view bytes) : in_(bytes), size_(bytes.size()) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_.integer<std::uint8_t>();
      if (byte > 1) throw ProtocolError(fmt::format("{} is neither true nor false", byte));
      value = byte == 1;
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(std::is_same_v<std::underlying_type_t<T>, std::uint8_t>);
      value = static_cast<T>(in_.integer<std::uint8_t>());
    } else if constexpr (std::is_integral_v<T>) {
      value = in_.integer<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(in_.integer<std::uint64_t>());
    } else if constexpr (detail::is_duration<T>) {
      value = T(in_.integer<std::int64_t>());
    } else if constexpr (detail::is_pair<T>) {
      (*this)(value.first), (*this)(value.second);
    } else if constexpr (!std::is_empty_v<T>) {
      fields(*this, value);
    }
  }
  template <typename E>
  void choice(E& value, E first, E last, const char* what = "value of a field") {
    const unsigned byte = in_.integer<std::uint8_t>();
    if (byte < static_cast<unsigned>(first) || byte > static_cast<unsigned>(last))
      throw ProtocolError(fmt::format("unknown {} {}; {} to {} are known", what, byte,
                                      static_cast<unsigned>(first), static_cast<unsigned>(last)));
    value = static_cast<E>(byte);
  }
  void text(std::string& value, std::size_t max) { value = in_.text(max); }
  // Without a copy; valid as long as the bytes given to the constructor.
  void text(std::string_view& value, std::size_t max) { value = in_.text(max); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void list(std::vector<T>& values, std::size_t max) {
    list(values, max, sizeof(T), [](auto& io, T& value) { io(value); });
  }
  template <typename T, typename Item>
  void list(std::vector<T>& values, std::size_t max, std::size_t smallest, Item item) {
    const std::size_t count = in_.integer<std::uint32_t>();
    if (count > max || count > in_.remaining() / smallest)
      throw ProtocolError(fmt::format("a list of {} items does not fit its message", count));
    values.resize(count);
    for (T& value : values) item(*this, value);
  }
  template <std::size_t N>
  void array(std::array<std::uint8_t, N>& value) {
    for (std::uint8_t& byte : value) byte = in_.integer<std::uint8_t>();
  }
  template <typename T>
  void narrow(T& value, std::size_t width) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < width; ++i)
      number |= std::uint64_t{in_.integer<std::uint8_t>()} << (8 * i);
    value = static_cast<T>(number);
  }
  void pad(std::size_t multiple) {
    while ((size_ - in_.remaining()) % multiple != 0) in_.integer<std::uint8_t>();
  }
  // `what()` is the reason, a text.
  template <typename What>
  void expect(bool ok, const What& what) {
    if (!ok) throw ProtocolError(what());
  }

  std::size_t remaining() const { return in_.remaining(); }
  void expect_end() const { in_.expect_end(); }

 private:
  ByteReader in_;
  std::size_t size_;
};

// Appends to `out`.
template <typename M>
void encode_fields(const M& message, std::string& out) {
  FieldWriter writer(out);
  writer(message);
}

template <typename M>
std::string encode_fields(const M& message) {
  std::string bytes;
  encode_fields(message, bytes);
  return bytes;
}

// Of all the bytes: ProtocolError when some are left over.
template <typename M>
M decode_fields(std::string_view bytes) {
  M message;
  FieldReader reader(bytes);
  reader(message);
  reader.expect_end();
  return message;
}

// One of the messages of a std::variant: a byte that is `first` for the variant's first one, and so
// on; then its fields.
template <typename Variant>
void encode_tagged(const Variant& message, unsigned first, std::string& out) {
  out.push_back(static_cast<char>(first + message.index()));
  std::visit([&](const auto& one) { encode_fields(one, out); }, message);
}

namespace detail {

template <typename Variant, std::size_t I = 0>
Variant decode_alternative(std::size_t index, std::string_view bytes) {
  if constexpr (I + 1 < std::variant_size_v<Variant>)
    if (index != I) return decode_alternative<Variant, I + 1>(index, bytes);
  return decode_fields<std::variant_alternative_t<I, Variant>>(bytes);
}

}  // namespace detail

template <typename Variant>
Variant decode_tagged(unsigned first, std::string_view bytes) {
  if (bytes.empty()) throw ProtocolError("a message is empty");
  const unsigned kind = static_cast<unsigned char>(bytes[0]);
  if (kind < first || kind - first >= std::variant_size_v<Variant>)
    throw ProtocolError(fmt::format("a message of unknown kind {}", kind),
                        {.advice = "Run the same version of Cohort on all hosts."});
  return detail::decode_alternative<Variant>(kind - first, bytes.substr(1));
}

}  // namespace cohort
