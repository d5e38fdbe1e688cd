#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The header of a safetensors file, without LibTorch: what is where in the file.
//
// A file is: the header's length (8 bytes, little-endian), the header (JSON, padded with spaces to
// a multiple of 8), the tensors' bytes one after the other. The header maps each name to its dtype,
// shape and data_offsets [begin, end), counted from the end of the header; "__metadata__" maps text
// to text. Nothing lies between, before or after the tensors.
//
// Pure functions; values. Every complaint is an InvalidInput that names the file, the tensor and
// the reason.
namespace cohort::train {

enum class Dtype { f64, i64, f32, i32, f16, bf16, i16, i8, u8, boolean };

std::string_view name_of(Dtype dtype);  // as the format spells it: "F32", "BOOL"
std::uint64_t size_of(Dtype dtype);     // bytes of one element

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // from the first byte after the header
  std::uint64_t end = 0;
};

using Metadata = std::map<std::string, std::string>;

// Files of ours have a CRC-32C of every tensor in their metadata, under this prefix and the
// tensor's name, and one of the header itself, taken with kNoChecksum in its own place. That there
// is one is said in a second place, so that no single flipped bit hides it; earlier files have
// neither.
inline constexpr std::string_view kChecksumPrefix = "crc32c.";
inline constexpr std::string_view kHeaderChecksum = "crc32c_of_header";
inline constexpr std::string_view kHeaderIsChecked = "cohort_header";  // its value: kChecked
inline constexpr std::string_view kChecked = "checked";
inline constexpr std::string_view kNoChecksum = "00000000";
std::string checksum_text(std::uint32_t crc);  // 8 hexadecimal digits

struct Layout {
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  Metadata metadata;
};

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// The length that the first 8 bytes announce, checked against the bound and against the file's
// size: safe to allocate. `file` is for the complaint alone.
std::uint64_t parse_header_length(std::string_view first_bytes, std::uint64_t file_bytes,
                                  const std::string& file);

// `data_bytes`: what the file holds after the header. The result's offsets lie inside and cover it
// without overlap or hole, and every shape times its dtype is its number of bytes. Where the
// header has a checksum, it is as it was written, and every tensor has one too; what says so is
// taken out of the metadata.
Layout parse_header(std::string_view header, std::uint64_t data_bytes, const std::string& file);

// Sets every begin and end, and orders the tensors by alignment (widest dtype first), then by name,
// so that each is aligned and the same tensors always give the same bytes.
void arrange(Layout& layout);

// Throws unless the bytes of a BOOL tensor are 0 or 1 each: others have no meaning, and reading
// them as bool is undefined.
void check_booleans(const TensorEntry& entry, std::string_view bytes, const std::string& file);

// Length, header and padding of an arranged layout. Fills in kHeaderChecksum where the metadata has
// one.
std::string encode_header(const Layout& layout);

// "[2, 3]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace cohort::train
