#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "cohort/collective/reduction/half.h"

// 64 bytes of accumulators at a time, in the compiler's vector types, which it lowers to whatever
// the unit is built for. Everything is in an unnamed namespace, and nothing from the standard
// library is called: a unit built for AVX-512 must not leave functions for the linker to share.
namespace cohort::collective {
namespace {

using VecF32 = float __attribute__((vector_size(64)));
using VecF64 = double __attribute__((vector_size(64)));
using VecI32 = std::int32_t __attribute__((vector_size(64)));
using VecU32 = std::uint32_t __attribute__((vector_size(64)));
using VecI64 = std::int64_t __attribute__((vector_size(64)));
using VecU64 = std::uint64_t __attribute__((vector_size(64)));
using VecU16 = std::uint16_t __attribute__((vector_size(32)));
using VecI8 = std::int8_t __attribute__((vector_size(16)));
using VecU8x64 = std::uint8_t __attribute__((vector_size(64)));
using VecU8 = std::uint8_t __attribute__((vector_size(16)));

#define COHORT_INLINE [[gnu::always_inline]] inline

template <typename V>
COHORT_INLINE V read(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <typename V>
COHORT_INLINE void write(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// Which of two NaNs an addition returns is the compiler's choice of operand order, so results carry
// one NaN only.
COHORT_INLINE VecF32 one_nan(VecF32 v) { return v == v ? v : VecF32{} + __builtin_nanf(""); }
COHORT_INLINE VecF64 one_nan(VecF64 v) { return v == v ? v : VecF64{} + __builtin_nan(""); }
COHORT_INLINE VecI32 one_nan(VecI32 v) { return v; }
COHORT_INLINE VecI64 one_nan(VecI64 v) { return v; }

// How an element type becomes a vector of accumulators and back.
template <typename Accumulator, typename V>
struct SameType {
  using Acc = Accumulator;
  using Vec = V;
  static constexpr std::size_t kElementBytes = sizeof(Accumulator);
  COHORT_INLINE static Vec load(const void* x) { return read<Vec>(x); }
  COHORT_INLINE static void store(void* out, Vec v) { write(out, one_nan(v)); }
};
using ElementF32 = SameType<float, VecF32>;
using ElementF64 = SameType<double, VecF64>;
using ElementI32 = SameType<std::int32_t, VecI32>;
using ElementI64 = SameType<std::int64_t, VecI64>;

struct ElementBF16 {
  using Acc = float;
  using Vec = VecF32;
  static constexpr std::size_t kElementBytes = 2;
  COHORT_INLINE static Vec load(const void* x) {
    return reinterpret_cast<VecF32>(__builtin_convertvector(read<VecU16>(x), VecU32) << 16);
  }
  COHORT_INLINE static void store(void* out, Vec v) {
    const VecU32 bits = reinterpret_cast<VecU32>(v);
    const VecU32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const VecU32 result = (bits & 0x7fffffffu) > 0x7f800000u ? VecU32{} + 0x7fc0u : rounded;
    write(out, __builtin_convertvector(result, VecU16));
  }
};

struct ElementF16 {
  using Acc = float;
  using Vec = VecF32;
  static constexpr std::size_t kElementBytes = 2;
#if defined(__AVX512F__)
  COHORT_INLINE static Vec load(const void* x) {
    return reinterpret_cast<Vec>(_mm512_cvtph_ps(read<__m256i>(x)));
  }
  COHORT_INLINE static void store(void* out, Vec v) {
    write(out, _mm512_cvtps_ph(reinterpret_cast<__m512>(one_nan(v)), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  COHORT_INLINE static Vec load(const void* x) {
    const __m256 halves[2] = {
        _mm256_cvtph_ps(read<__m128i>(x)),
        _mm256_cvtph_ps(read<__m128i>(static_cast<const char*>(x) + 16)),
    };
    return read<Vec>(halves);
  }
  COHORT_INLINE static void store(void* out, Vec v) {
    __m256 halves[2];
    write(halves, one_nan(v));
    write(out, _mm256_cvtps_ph(halves[0], _MM_FROUND_TO_NEAREST_INT));
    write(static_cast<char*>(out) + 16, _mm256_cvtps_ph(halves[1], _MM_FROUND_TO_NEAREST_INT));
  }
#else
  COHORT_INLINE static Vec load(const void* x) {
    const VecU16 halves = read<VecU16>(x);
    Vec v;
    for (int i = 0; i < 16; ++i) v[i] = from_f16(halves[i]);
    return v;
  }
  COHORT_INLINE static void store(void* out, Vec v) {
    VecU16 halves;
    v = one_nan(v);
    for (int i = 0; i < 16; ++i) halves[i] = to_f16(v[i]);
    write(out, halves);
  }
#endif
};

template <typename Narrow>
struct ElementSmall {
  using Acc = std::int32_t;
  using Vec = VecI32;
  static constexpr std::size_t kElementBytes = 1;
  COHORT_INLINE static Vec load(const void* x) {
    return __builtin_convertvector(read<Narrow>(x), VecI32);
  }
  COHORT_INLINE static void store(void* out, Vec v) {
    write(out, __builtin_convertvector(v, Narrow));
  }
};
using ElementI8 = ElementSmall<VecI8>;
using ElementU8 = ElementSmall<VecU8>;

struct ElementBool : ElementSmall<VecU8> {
  COHORT_INLINE static Vec load(const void* x) { return (ElementSmall<VecU8>::load(x) != 0) & 1; }
};

// Integers wrap: their sums and products are taken without signs.
COHORT_INLINE VecF32 add(VecF32 a, VecF32 b) { return a + b; }
COHORT_INLINE VecF64 add(VecF64 a, VecF64 b) { return a + b; }
COHORT_INLINE VecI32 add(VecI32 a, VecI32 b) { return VecI32(VecU32(a) + VecU32(b)); }
COHORT_INLINE VecI64 add(VecI64 a, VecI64 b) { return VecI64(VecU64(a) + VecU64(b)); }
COHORT_INLINE VecF32 multiply(VecF32 a, VecF32 b) { return a * b; }
COHORT_INLINE VecF64 multiply(VecF64 a, VecF64 b) { return a * b; }
COHORT_INLINE VecI32 multiply(VecI32 a, VecI32 b) { return VecI32(VecU32(a) * VecU32(b)); }
COHORT_INLINE VecI64 multiply(VecI64 a, VecI64 b) { return VecI64(VecU64(a) * VecU64(b)); }

struct Sum {
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return add(a, b);
  }
};
struct Product {
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return multiply(a, b);
  }
};
struct Minimum {  // `a != a`: a NaN stays
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Maximum {
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Or {
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return a | b;
  }
};
struct And {
  template <typename V>
  COHORT_INLINE static V apply(V a, V b) {
    return a & b;
  }
};

}  // namespace
}  // namespace cohort::collective
