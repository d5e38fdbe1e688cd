#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

namespace cohort::collective::testing {

namespace {

// Conversions written from the formats' definitions, by arithmetic and not by bits.
float decode_half(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int sign = bits >> 15 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::nanf("") : static_cast<float>(sign) * INFINITY;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return static_cast<float>(sign * value);
}

std::uint16_t encode_half(float value, int exponent_bits, int mantissa_bits) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // nearbyint rounds to even.
  const double steps = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  magnitude = std::ldexp(steps, exponent - mantissa_bits);
  if (magnitude >= std::ldexp(1.0, bias + 1)) return sign | infinity;
  if (magnitude < std::ldexp(1.0, 1 - bias)) return sign | static_cast<std::uint16_t>(steps);
  exponent = std::ilogb(magnitude);
  const auto mantissa =
      static_cast<std::uint16_t>(std::ldexp(std::ldexp(magnitude, -exponent) - 1, mantissa_bits));
  return sign | static_cast<std::uint16_t>((exponent + bias) << mantissa_bits) | mantissa;
}

template <typename T>
struct Plain {
  using Stored = T;
  using Acc = T;
  static Acc load(T x) { return x; }
  static T store(Acc x) { return x; }
};
struct F16 {
  using Stored = std::uint16_t;
  using Acc = float;
  static Acc load(Stored x) { return decode_half(x, 5, 10); }
  static Stored store(Acc x) { return encode_half(x, 5, 10); }
};
struct BF16 {
  using Stored = std::uint16_t;
  using Acc = float;
  static Acc load(Stored x) { return decode_half(x, 8, 7); }
  static Stored store(Acc x) { return encode_half(x, 8, 7); }
};
template <typename T>
struct Small {
  using Stored = T;
  using Acc = std::int32_t;
  static Acc load(T x) { return x; }
  static T store(Acc x) { return static_cast<T>(x); }
};
struct Bool {
  using Stored = std::uint8_t;
  using Acc = bool;
  static Acc load(Stored x) { return x != 0; }
  static Stored store(Acc x) { return x; }
};

template <typename Acc>
Acc wrap_add(Acc a, Acc b) {
  if constexpr (std::is_same_v<Acc, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<std::make_unsigned_t<Acc>>(a) +
                            static_cast<std::make_unsigned_t<Acc>>(b));
  else
    return a + b;
}
template <typename Acc>
Acc wrap_multiply(Acc a, Acc b) {
  if constexpr (std::is_same_v<Acc, bool>)
    return a && b;
  else if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<std::make_unsigned_t<Acc>>(a) *
                            static_cast<std::make_unsigned_t<Acc>>(b));
  else
    return a * b;
}

template <typename Acc>
Acc combine(ReduceOp op, Acc a, Acc b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return wrap_add(a, b);
    case ReduceOp::minimum:
      return (a < b || a != a) ? a : b;
    case ReduceOp::maximum:
      return (a > b || a != a) ? a : b;
    case ReduceOp::product:
      return wrap_multiply(a, b);
  }
  return a;
}

template <typename Acc>
Acc scaled(Acc value, double factor) {
  if (factor == 1) return value;
  if constexpr (std::is_floating_point_v<Acc>)
    return value * static_cast<Acc>(factor);
  else
    return static_cast<Acc>(static_cast<std::int64_t>(static_cast<double>(value) * factor));
}

template <typename Acc>
Acc tree(const std::vector<Acc>& leaves, ReduceOp op, std::size_t first, std::size_t count) {
  if (count == 1) return leaves[first];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return combine(op, tree(leaves, op, first, left), tree(leaves, op, first + left, count - left));
}

template <typename Type>
Bytes reduce_as(const std::vector<Bytes>& inputs, const ReferenceOptions& options) {
  using Stored = typename Type::Stored;
  using Acc = typename Type::Acc;
  Bytes result(inputs[0].size());
  std::vector<Acc> leaves(inputs.size());
  for (std::size_t at = 0; at < result.size(); at += sizeof(Stored)) {
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      Stored stored;
      std::memcpy(&stored, inputs[rank].data() + at, sizeof stored);
      leaves[rank] = scaled(Type::load(stored), options.pre_scale);
    }
    Acc value = scaled(tree(leaves, options.op, 0, leaves.size()), options.post_scale);
    if constexpr (!std::is_same_v<Acc, bool>)
      if (options.op == ReduceOp::average) value /= static_cast<Acc>(inputs.size());
    const Stored stored = Type::store(value);
    std::memcpy(result.data() + at, &stored, sizeof stored);
  }
  return result;
}

template <typename Type>
void fill(Bytes& bytes, std::mt19937& random) {
  using Stored = typename Type::Stored;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
    Stored stored;
    if constexpr (std::is_same_v<typename Type::Acc, bool>) {
      stored = static_cast<Stored>(random() % 3 == 0);
    } else if constexpr (std::is_integral_v<typename Type::Acc>) {
      stored = static_cast<Stored>(random());
    } else {
      // Magnitudes far apart: another order of addition would round differently.
      const double magnitude =
          std::ldexp(1 + random() / 4294967296.0, static_cast<int>(random() % 17) - 8);
      stored = Type::store(static_cast<typename Type::Acc>(random() % 2 ? magnitude : -magnitude));
    }
    std::memcpy(bytes.data() + at, &stored, sizeof stored);
  }
}

template <template <typename> class Function, typename... Args>
auto dispatch(DataType type, Args&&... args) {
  switch (type) {
    case DataType::f32:
      return Function<Plain<float>>::call(args...);
    case DataType::f64:
      return Function<Plain<double>>::call(args...);
    case DataType::f16:
      return Function<F16>::call(args...);
    case DataType::bf16:
      return Function<BF16>::call(args...);
    case DataType::i8:
      return Function<Small<std::int8_t>>::call(args...);
    case DataType::u8:
      return Function<Small<std::uint8_t>>::call(args...);
    case DataType::i32:
      return Function<Plain<std::int32_t>>::call(args...);
    case DataType::i64:
      return Function<Plain<std::int64_t>>::call(args...);
    case DataType::boolean:
      break;
  }
  return Function<Bool>::call(args...);
}

template <typename Type>
struct Fill {
  static void call(Bytes& bytes, std::mt19937& random) { fill<Type>(bytes, random); }
};
template <typename Type>
struct ReduceAs {
  static Bytes call(const std::vector<Bytes>& inputs, const ReferenceOptions& options) {
    return reduce_as<Type>(inputs, options);
  }
};

}  // namespace

Bytes contribution(DataType type, std::size_t count, int rank) {
  Bytes bytes(count * size_of(type));
  std::mt19937 random(static_cast<unsigned>(count) * 131 + static_cast<unsigned>(rank) + 1);
  dispatch<Fill>(type, bytes, random);
  return bytes;
}

std::ptrdiff_t first_difference(const Bytes& a, const Bytes& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at == a.end() && other == b.end() ? -1 : at - a.begin();
}

Bytes reference_reduce(DataType type, const std::vector<Bytes>& inputs,
                       const ReferenceOptions& options) {
  return dispatch<ReduceAs>(type, inputs, options);
}

}  // namespace cohort::collective::testing
