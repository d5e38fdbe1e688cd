#include "cohort/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
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

constexpr std::uint32_t apply(const Matrix& matrix, std::uint32_t vector) {
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
    for (int bit = 0; bit < 32; ++bit) square[bit] = apply(matrix, matrix[bit]);
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
    for (std::uint32_t i = 0; i < 256; ++i) table[byte][i] = apply(matrix, i << (8 * byte));
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
#endif

}  // namespace

std::uint32_t crc32c_plain(const void* data, std::size_t size, std::uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (std::size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kByteTable[(crc ^ p[i]) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2"))
    return crc32c_instruction(static_cast<const unsigned char*>(data), size, crc);
#endif
  return crc32c_plain(data, size, crc);
}

}  // namespace cohort
