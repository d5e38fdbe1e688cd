#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort {

// CRC-32C (Castagnoli) of `size` bytes, continued from `crc` (0 to begin). Finds every burst of
// damage up to 32 bits and all but one in 4 billion others; no defence against a writer who means
// it. Uses what the processor has: carry-less multiplication of wide vectors, else its instruction.
// Pure, thread-safe.
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc = 0);

// The same by the instruction at most, for processors with narrow vectors.
std::uint32_t crc32c_narrow(const void* data, std::size_t size, std::uint32_t crc = 0);

// The same by tables, for processors without the instruction, and as its reference in tests.
std::uint32_t crc32c_plain(const void* data, std::size_t size, std::uint32_t crc = 0);

}  // namespace cohort
