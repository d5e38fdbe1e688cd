#pragma once

#include "cohort/collective/reduction/kernels_table.h"
#include "cohort/collective/reduction/kernels_vector.h"

// The loops of kernels.h for the instruction set that the including unit is built for. Each runs
// over whole vectors; the last elements go through padded copies, so that they see the same code.
namespace cohort::collective {
namespace {

template <typename Element>
inline constexpr std::size_t kLanes = 64 / sizeof(typename Element::Acc);
template <typename Element>
inline constexpr std::size_t kVecBytes = kLanes<Element>* Element::kElementBytes;

template <std::size_t kBytes>
struct Padded {
  alignas(64) char bytes[kBytes] = {};
  Padded() = default;
  Padded(const void* from, std::size_t n) { __builtin_memcpy(bytes, from, n); }
};

template <typename Element, typename Op>
struct Loops {
  using Acc = typename Element::Acc;
  using Vec = typename Element::Vec;
  static constexpr std::size_t kStep = kLanes<Element>;
  static constexpr std::size_t kBytes = Element::kElementBytes;
  using Tail = Padded<kVecBytes<Element>>;
  using AccTail = Padded<64>;

  static void load(void* acc, const void* x, std::size_t n) {
    auto* a = static_cast<char*>(acc);
    const auto* p = static_cast<const char*>(x);
    std::size_t i = 0;
    for (; i + kStep <= n; i += kStep) write(a + i * sizeof(Acc), Element::load(p + i * kBytes));
    if (i == n) return;
    const Tail tail(p + i * kBytes, (n - i) * kBytes);
    const Vec v = Element::load(tail.bytes);
    __builtin_memcpy(a + i * sizeof(Acc), &v, (n - i) * sizeof(Acc));
  }

  static void pair(void* acc, const void* x, const void* y, std::size_t n) {
    auto* a = static_cast<char*>(acc);
    const auto* p = static_cast<const char*>(x);
    const auto* q = static_cast<const char*>(y);
    std::size_t i = 0;
    for (; i + kStep <= n; i += kStep)
      write(a + i * sizeof(Acc),
            Op::apply(Element::load(p + i * kBytes), Element::load(q + i * kBytes)));
    if (i == n) return;
    const Tail left(p + i * kBytes, (n - i) * kBytes);
    const Tail right(q + i * kBytes, (n - i) * kBytes);
    const Vec v = Op::apply(Element::load(left.bytes), Element::load(right.bytes));
    __builtin_memcpy(a + i * sizeof(Acc), &v, (n - i) * sizeof(Acc));
  }

  static void join(void* acc, const void* other, std::size_t n) {
    auto* a = static_cast<char*>(acc);
    const auto* b = static_cast<const char*>(other);
    std::size_t i = 0;
    for (; i + kStep <= n; i += kStep)
      write(a + i * sizeof(Acc),
            Op::apply(read<Vec>(a + i * sizeof(Acc)), read<Vec>(b + i * sizeof(Acc))));
    if (i == n) return;
    const std::size_t bytes = (n - i) * sizeof(Acc);
    const AccTail left(a + i * sizeof(Acc), bytes);
    const AccTail right(b + i * sizeof(Acc), bytes);
    const Vec v = Op::apply(read<Vec>(left.bytes), read<Vec>(right.bytes));
    __builtin_memcpy(a + i * sizeof(Acc), &v, bytes);
  }

  static void join_leaf(void* acc, const void* x, std::size_t n) {
    auto* a = static_cast<char*>(acc);
    const auto* p = static_cast<const char*>(x);
    std::size_t i = 0;
    for (; i + kStep <= n; i += kStep)
      write(a + i * sizeof(Acc),
            Op::apply(read<Vec>(a + i * sizeof(Acc)), Element::load(p + i * kBytes)));
    if (i == n) return;
    const AccTail left(a + i * sizeof(Acc), (n - i) * sizeof(Acc));
    const Tail right(p + i * kBytes, (n - i) * kBytes);
    const Vec v = Op::apply(read<Vec>(left.bytes), Element::load(right.bytes));
    __builtin_memcpy(a + i * sizeof(Acc), &v, (n - i) * sizeof(Acc));
  }

  // Floating-point factors are rounded to the accumulator first; integers go through f64.
  static void scale(void* acc, double factor, std::size_t n) {
    auto* a = static_cast<Acc*>(acc);
    if constexpr (static_cast<Acc>(0.5) != 0) {
      const Acc rounded = static_cast<Acc>(factor);
      for (std::size_t i = 0; i < n; ++i) a[i] *= rounded;
    } else {
      for (std::size_t i = 0; i < n; ++i)
        a[i] = static_cast<Acc>(static_cast<std::int64_t>(static_cast<double>(a[i]) * factor));
    }
  }

  static void divide(void* acc, int divisor, std::size_t n) {
    auto* a = static_cast<Acc*>(acc);
    const Acc by = static_cast<Acc>(divisor);
    for (std::size_t i = 0; i < n; ++i) a[i] /= by;
  }

  static void store(void* out, const void* acc, std::size_t n) {
    auto* o = static_cast<char*>(out);
    const auto* a = static_cast<const char*>(acc);
    std::size_t i = 0;
    for (; i + kStep <= n; i += kStep)
      Element::store(o + i * kBytes, read<Vec>(a + i * sizeof(Acc)));
    if (i == n) return;
    const AccTail tail(a + i * sizeof(Acc), (n - i) * sizeof(Acc));
    Tail rounded;
    Element::store(rounded.bytes, read<Vec>(tail.bytes));
    __builtin_memcpy(o + i * kBytes, rounded.bytes, (n - i) * kBytes);
  }

  template <bool kHalve>
  static void pair_to(void* out1, void* out2, const void* x, const void* y, std::size_t n) {
    auto* o1 = static_cast<char*>(out1);
    auto* o2 = static_cast<char*>(out2);
    const auto* p = static_cast<const char*>(x);
    const auto* q = static_cast<const char*>(y);
    const auto reduce = [](const char* left, const char* right) __attribute__((always_inline)) {
      Vec v = Op::apply(Element::load(left), Element::load(right));
      if constexpr (kHalve) v = v * static_cast<Acc>(0.5);
      return v;
    };
    std::size_t i = 0;
    // Two vectors a turn keep enough loads in flight.
    for (; i + 2 * kStep <= n; i += 2 * kStep) {
      const Vec v1 = reduce(p + i * kBytes, q + i * kBytes);
      const Vec v2 = reduce(p + (i + kStep) * kBytes, q + (i + kStep) * kBytes);
      Element::store(o1 + i * kBytes, v1);
      Element::store(o1 + (i + kStep) * kBytes, v2);
      Element::store(o2 + i * kBytes, v1);
      Element::store(o2 + (i + kStep) * kBytes, v2);
    }
    while (i < n) {
      const std::size_t bytes = (n - i < kStep ? n - i : kStep) * kBytes;
      const Tail left(p + i * kBytes, bytes);
      const Tail right(q + i * kBytes, bytes);
      Tail result;
      Element::store(result.bytes, reduce(left.bytes, right.bytes));
      __builtin_memcpy(o1 + i * kBytes, result.bytes, bytes);
      __builtin_memcpy(o2 + i * kBytes, result.bytes, bytes);
      i += kStep;
    }
  }

  static constexpr Kernels table() {
    Kernels result{sizeof(Acc), load,   pair,  join,           join_leaf,
                   scale,       divide, store, pair_to<false>, nullptr};
    if constexpr (static_cast<Acc>(0.5) != 0) result.pair_to_halved = pair_to<true>;
    return result;
  }
};

// Copies lines of 64 bytes, four at a time, as far as they go; `put` writes one.
template <typename Put>
COHORT_INLINE void copy_lines(char*& t, const char*& f, std::size_t& bytes, Put put) {
  for (; bytes >= 256; bytes -= 256, t += 256, f += 256) {
    const VecU8x64 a = read<VecU8x64>(f), b = read<VecU8x64>(f + 64);
    const VecU8x64 c = read<VecU8x64>(f + 128), d = read<VecU8x64>(f + 192);
    put(t, a);
    put(t + 64, b);
    put(t + 128, c);
    put(t + 192, d);
  }
}

void copy_vectors(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;  // the pointers may then be null
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  if (bytes >= 512) {
    // Whole lines of the target: first up to its next 64-byte boundary, then four at a time.
    const std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(t) % 64) % 64;
    __builtin_memcpy(t, f, 64);
    t += head;
    f += head;
    bytes -= head;
    copy_lines(t, f, bytes, [](char* line, const VecU8x64& value) { write(line, value); });
  }
  __builtin_memcpy(t, f, bytes);
}

// One line past the caches.
COHORT_INLINE void write_around(void* to, VecU8x64 value) {
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
#else
  __m128i parts[4];
  __builtin_memcpy(parts, &value, sizeof parts);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(static_cast<__m128i*>(to) + i, parts[i]);
#endif
}

void copy_around_vectors(void* to, const void* from, std::size_t bytes) {
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  const std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(t) % 64) % 64;
  if (bytes >= head + 256) {
    __builtin_memcpy(t, f, head);
    t += head;
    f += head;
    bytes -= head;
  }
  copy_lines(t, f, bytes, [](char* line, const VecU8x64& value) { write_around(line, value); });
  copy_vectors(t, f, bytes);
  _mm_sfence();
}

#define COHORT_KERNEL_ROW(Element, SumOp, MinimumOp, MaximumOp, ProductOp)      \
  {                                                                             \
    Loops<Element, SumOp>::table(), Loops<Element, SumOp>::table(),             \
        Loops<Element, MinimumOp>::table(), Loops<Element, MaximumOp>::table(), \
        Loops<Element, ProductOp>::table()                                      \
  }

// In the order of DataType.
#define COHORT_KERNEL_TABLE                                             \
  {                                                                     \
    COHORT_KERNEL_ROW(ElementF32, Sum, Minimum, Maximum, Product),      \
        COHORT_KERNEL_ROW(ElementF64, Sum, Minimum, Maximum, Product),  \
        COHORT_KERNEL_ROW(ElementF16, Sum, Minimum, Maximum, Product),  \
        COHORT_KERNEL_ROW(ElementBF16, Sum, Minimum, Maximum, Product), \
        COHORT_KERNEL_ROW(ElementI8, Sum, Minimum, Maximum, Product),   \
        COHORT_KERNEL_ROW(ElementU8, Sum, Minimum, Maximum, Product),   \
        COHORT_KERNEL_ROW(ElementI32, Sum, Minimum, Maximum, Product),  \
        COHORT_KERNEL_ROW(ElementI64, Sum, Minimum, Maximum, Product),  \
        COHORT_KERNEL_ROW(ElementBool, Or, And, Or, And),               \
  }

}  // namespace
}  // namespace cohort::collective
