#include "cohort/base/data/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cohort {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::uint32_t step_byte(std::uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
  return crc;
}

constexpr std::array<std::uint32_t, 256> make_byte_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) table[i] = step_byte(i);
  return table;
}
constexpr auto kByteTable = make_byte_table();

// A linear map of 32 bits, by the images of the single bits.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t apply_operator(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t result = 0;
  for (int bit = 0; vector != 0; ++bit, vector >>= 1)
    if ((vector & 1) != 0) result ^= matrix[bit];
  return result;
}

// What 2^doublings zero bytes do to the register.
constexpr Matrix zeros(int doublings) {
  Matrix matrix{};
  for (int bit = 0; bit < 32; ++bit) matrix[bit] = step_byte(std::uint32_t{1} << bit);
  for (int i = 0; i < doublings; ++i) {
    Matrix square{};
    for (int bit = 0; bit < 32; ++bit) square[bit] = apply_operator(matrix, matrix[bit]);
    matrix = square;
  }
  return matrix;
}

// The same map for each byte of the register, to be looked up.
using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr ShiftTable make_shift_table(int doublings) {
  const Matrix matrix = zeros(doublings);
  ShiftTable table{};
  for (int byte = 0; byte < 4; ++byte)
    for (std::uint32_t i = 0; i < 256; ++i)
      table[byte][i] = apply_operator(matrix, i << (8 * byte));
  return table;
}

#if defined(__x86_64__)
// Three runs side by side, because the instruction takes three cycles but starts every cycle.
constexpr int kRunDoublings = 11;
constexpr std::size_t kRunBytes = std::size_t{1} << kRunDoublings;
constexpr ShiftTable kShift = make_shift_table(kRunDoublings);

std::uint64_t shift(std::uint64_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^
         kShift[3][crc >> 24 & 0xff];
}

std::uint64_t load(const unsigned char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_instruction(const unsigned char* p,
                                                                   std::size_t size,
                                                                   std::uint32_t start) {
  std::uint64_t crc = ~start;
  for (; size >= 3 * kRunBytes; size -= 3 * kRunBytes, p += 3 * kRunBytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kRunBytes; i += 8) {
      crc = _mm_crc32_u64(crc, load(p + i));
      second = _mm_crc32_u64(second, load(p + kRunBytes + i));
      third = _mm_crc32_u64(third, load(p + 2 * kRunBytes + i));
    }
    crc = shift(shift(crc) ^ second) ^ third;
  }
  for (; size >= 8; size -= 8, p += 8) crc = _mm_crc32_u64(crc, load(p));
  auto narrow = static_cast<std::uint32_t>(crc);
  for (; size > 0; --size, ++p) narrow = _mm_crc32_u8(narrow, *p);
  return ~narrow;
}

// x^power modulo the polynomial, with bit 31 - i the factor of x^i as everywhere here.
constexpr std::uint32_t power_of_x(int power) {
  std::uint32_t result = std::uint32_t{1} << 31;
  for (int i = 0; i < power; ++i) result = (result >> 1) ^ ((result & 1) != 0 ? kPolynomial : 0);
  return result;
}

// Four vectors of 64 bytes are multiplied by x^2048, that is moved over the next 256 bytes, and
// added to those: what is left at the end has the same remainder as all that came before. A product
// of two reflected 64-bit factors comes out one bit too low, hence x^(k - 1) to multiply by x^k.
constexpr std::size_t kFoldBytes = 256;
constexpr auto kFoldFirst = static_cast<long long>(std::uint64_t{power_of_x(8 * 256 + 63)} << 32);
constexpr auto kFoldSecond = static_cast<long long>(std::uint64_t{power_of_x(8 * 256 - 1)} << 32);

__attribute__((target("avx512f,vpclmulqdq"))) inline __m512i fold(__m512i sum, __m512i factors,
                                                                  __m512i next) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, 0x00),
                                   _mm512_clmulepi64_epi128(sum, factors, 0x11), next, kXorOfThree);
}

__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) std::uint32_t crc32c_folding(
    const unsigned char* p, std::size_t size, std::uint32_t start) {
  if (size < 2 * kFoldBytes) return crc32c_instruction(p, size, start);
  const __m512i factors = _mm512_set4_epi64(kFoldSecond, kFoldFirst, kFoldSecond, kFoldFirst);
  __m512i sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_loadu_si512(p + 64 * i);
  sums[0] = _mm512_xor_si512(sums[0],
                             _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~start))));
  for (size -= kFoldBytes, p += kFoldBytes; size >= kFoldBytes; size -= kFoldBytes, p += kFoldBytes)
    for (int i = 0; i < 4; ++i) sums[i] = fold(sums[i], factors, _mm512_loadu_si512(p + 64 * i));
  alignas(64) unsigned char rest[kFoldBytes];
  for (int i = 0; i < 4; ++i) _mm512_store_si512(rest + 64 * i, sums[i]);
  return crc32c_instruction(p, size, crc32c_instruction(rest, sizeof rest, ~std::uint32_t{0}));
}
#endif

}  // namespace

std::uint32_t crc32c_plain(const void* data, std::size_t size, std::uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (std::size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kByteTable[(crc ^ p[i]) & 0xff];
  return ~crc;
}

std::uint32_t crc32c_narrow(const void* data, std::size_t size, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2"))
    return crc32c_instruction(static_cast<const unsigned char*>(data), size, crc);
#endif
  return crc32c_plain(data, size, crc);
}

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
    return crc32c_folding(static_cast<const unsigned char*>(data), size, crc);
#endif
  return crc32c_narrow(data, size, crc);
}

}  // namespace cohort
