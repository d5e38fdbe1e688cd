#include "cohort/train/data/idx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

constexpr int kMostDimensions = 8;

bool is_idx_type(std::uint8_t code) {
  return code == 0x08 || code == 0x09 || (code >= 0x0b && code <= 0x0e);
}

IdxArray read_elements(DataReader& reader, const IdxHeader& header) {
  IdxArray array{.header = header, .bytes = {}};
  array.bytes.resize(static_cast<std::size_t>(header.bytes()));
  reader.read(array.bytes, "its elements");
  reader.expect_end();
  const std::int64_t size = size_of(header.type);
  if (size > 1 && std::endian::native == std::endian::little)
    for (auto at = array.bytes.begin(); at != array.bytes.end(); at += size)
      std::reverse(at, at + size);
  return array;
}

}  // namespace

std::int64_t size_of(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  throw InvalidInput(fmt::format("there is no IDX type {:#04x}", static_cast<int>(type)));
}

std::int64_t IdxHeader::elements() const {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

IdxHeader read_idx_header(DataReader& reader) {
  std::array<std::uint8_t, 4> magic;
  reader.read(magic, "the IDX header");
  if (magic[0] != 0 || magic[1] != 0 || !is_idx_type(magic[2]) || magic[3] == 0 ||
      magic[3] > kMostDimensions)
    reader.file().refuse(fmt::format(
        "is not an IDX file: it begins {:02x} {:02x} {:02x} {:02x}, expected 00 00, a type and a "
        "number of dimensions",
        magic[0], magic[1], magic[2], magic[3]));
  IdxHeader header{.type = static_cast<IdxType>(magic[2]), .dims = {}};
  const std::uint64_t most = reader.most_bytes();
  auto bytes = static_cast<std::uint64_t>(size_of(header.type));
  bool too_big = false;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> big;
    reader.read(big, "the IDX header");
    const std::uint64_t dim = std::uint64_t{big[0]} << 24 | big[1] << 16 | big[2] << 8 | big[3];
    header.dims.push_back(static_cast<std::int64_t>(dim));
    // `most` bounds each factor before the product is taken: no overflow.
    if (dim != 0 && bytes > most / dim) too_big = true;
    bytes = too_big ? bytes : bytes * dim;
  }
  if (too_big && std::find(header.dims.begin(), header.dims.end(), 0) == header.dims.end())
    reader.file().refuse(
        fmt::format("its header says {} elements, more than a file of its size can hold",
                    fmt::join(header.dims, " x ")));
  return header;
}

void expect_bytes(const IdxHeader& header, int dimensions, const DataFile& file) {
  if (header.type != IdxType::kUint8 || header.dims.size() != static_cast<std::size_t>(dimensions))
    file.refuse(fmt::format(
        "its magic number is {:#010x}, expected {:#010x} (uint8, {} dimension{})",
        static_cast<unsigned>(header.type) << 8 | static_cast<unsigned>(header.dims.size()),
        0x0800u | static_cast<unsigned>(dimensions), dimensions, dimensions == 1 ? "" : "s"));
}

IdxArray read_idx(const DataFile& file) {
  DataReader reader(file);
  const IdxHeader header = read_idx_header(reader);
  return read_elements(reader, header);
}

IdxArray read_idx_bytes(const DataFile& file, int dimensions) {
  DataReader reader(file);
  const IdxHeader header = read_idx_header(reader);
  expect_bytes(header, dimensions, file);
  return read_elements(reader, header);
}

}  // namespace cohort::train
