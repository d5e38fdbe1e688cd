#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::train {

// What the head of a .npy file (NumPy's format, versions 1 to 3) says of the array behind it.
struct NpyHeader {
  std::string type;  // as NumPy writes it: "<f4", "<i8", "|u1"
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of the first element in the file

  // Of one element. Known types have 1, 2, 4 or 8 bytes.
  std::uint64_t element_bytes() const;
  std::uint64_t elements() const;
};

// So many bytes from the file's beginning hold the head of any array that is read here.
inline constexpr std::size_t kMostNpyHeaderBytes = 64 * 1024;

// `bytes`: the beginning of the file, whole or kMostNpyHeaderBytes of it; `file_bytes`: all that it
// has. Takes little-endian integers, floats and booleans in C order whose elements fill the file
// exactly. InvalidInput names `name` and the reason. A pure function.
NpyHeader parse_npy_header(std::string_view bytes, std::uint64_t file_bytes,
                           const std::string& name);

}  // namespace cohort::train
