#include "arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cohort::collective::nccl::testing {

namespace {

// Halves of finite values, by arithmetic: `mantissa` stored bits, `bias` of the exponent.
template <int kMantissa, int kBias>
struct HalfFormat {
  std::uint16_t bits = 0;
  HalfFormat() = default;
  explicit HalfFormat(double value) {
    const int sign = std::signbit(value) ? 0x8000 : 0;
    bits = static_cast<std::uint16_t>(sign);
    if (value == 0) return;
    const int exponent = std::max(std::ilogb(value), 1 - kBias);
    auto steps =
        static_cast<int>(std::nearbyint(std::ldexp(std::fabs(value), kMantissa - exponent)));
    const int stored = steps < (1 << kMantissa) ? 0 : exponent + kBias;
    if (stored > 0) steps -= 1 << kMantissa;  // a carry goes on into the exponent
    bits = static_cast<std::uint16_t>(sign + (stored << kMantissa) + steps);
  }
  explicit operator double() const {
    const int exponent = (bits & 0x7fff) >> kMantissa;
    const int steps = bits & ((1 << kMantissa) - 1);
    const double value = exponent == 0
                             ? std::ldexp(steps, 1 - kBias - kMantissa)
                             : std::ldexp(steps + (1 << kMantissa), exponent - kBias - kMantissa);
    return (bits & 0x8000) != 0 ? -value : value;
  }
};

template <typename T>
T combine(Op op, T a, T b) {
  switch (op) {
    case Op::minimum:
      return std::min(a, b);
    case Op::maximum:
      return std::max(a, b);
    case Op::sum:
    case Op::average:
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      else
        return a + b;
    case Op::product:
      break;
  }
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

// Computes in `Wide` what is stored as `Stored`.
template <typename Stored, typename Wide>
void reduce_as(const std::vector<const std::byte*>& inputs, std::byte* out, std::size_t count,
               Op op) {
  std::vector<Stored> results(count);  // `out` may be one of the inputs
  for (std::size_t i = 0; i < count; ++i) {
    const auto load = [&](std::size_t rank) {
      Stored stored;
      std::memcpy(&stored, inputs[rank] + i * sizeof stored, sizeof stored);
      return static_cast<Wide>(stored);
    };
    Wide value = load(0);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) value = combine(op, value, load(rank));
    if (op == Op::average) value = static_cast<Wide>(value / static_cast<Wide>(inputs.size()));
    results[i] = static_cast<Stored>(value);
  }
  std::memcpy(out, results.data(), count * sizeof(Stored));
}

}  // namespace

std::size_t bytes_of(Type type) {
  switch (type) {
    case Type::i8:
    case Type::u8:
      return 1;
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::i32:
    case Type::f32:
      return 4;
    case Type::i64:
    case Type::f64:
      break;
  }
  return 8;
}

void reduce(const std::vector<const std::byte*>& inputs, std::byte* out, std::size_t count,
            Type type, Op op) {
  switch (type) {
    case Type::i8:
      return reduce_as<std::int8_t, std::int8_t>(inputs, out, count, op);
    case Type::u8:
      return reduce_as<std::uint8_t, std::uint8_t>(inputs, out, count, op);
    case Type::i32:
      return reduce_as<std::int32_t, std::int32_t>(inputs, out, count, op);
    case Type::i64:
      return reduce_as<std::int64_t, std::int64_t>(inputs, out, count, op);
    case Type::f16:
      return reduce_as<HalfFormat<10, 15>, double>(inputs, out, count, op);
    case Type::bf16:
      return reduce_as<HalfFormat<7, 127>, double>(inputs, out, count, op);
    case Type::f32:
      return reduce_as<float, float>(inputs, out, count, op);
    case Type::f64:
      return reduce_as<double, double>(inputs, out, count, op);
  }
}

}  // namespace cohort::collective::nccl::testing
