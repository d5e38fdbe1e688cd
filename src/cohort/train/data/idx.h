#pragma once

#include <cstdint>
#include <vector>

#include "cohort/train/data/data_file.h"

// The IDX format of MNIST: 0, 0, type, number of dimensions; each dimension, 32 bits big-endian;
// the elements, big-endian, the last dimension fastest. Files may be gzip files.
namespace cohort::train {

enum class IdxType : std::uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0b,
  kInt32 = 0x0c,
  kFloat32 = 0x0d,
  kFloat64 = 0x0e,
};

std::int64_t size_of(IdxType type);

struct IdxHeader {
  IdxType type = IdxType::kUint8;
  std::vector<std::int64_t> dims;

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * size_of(type); }
  // Of the header itself.
  std::int64_t header_bytes() const { return 4 + 4 * static_cast<std::int64_t>(dims.size()); }
};

struct IdxArray {
  IdxHeader header;
  std::vector<std::uint8_t> bytes;  // in this machine's order
};

// Reads the header and leaves `reader` at the first element. A wrong magic number, or dimensions
// that a file of this size cannot hold, are InvalidInput.
IdxHeader read_idx_header(DataReader& reader);

// The whole file; it must hold exactly what its header says.
IdxArray read_idx(const DataFile& file);

// read_idx() of `dimensions`-dimensional uint8 data: IDX3 images, IDX1 labels.
IdxArray read_idx_bytes(const DataFile& file, int dimensions);
// Throws InvalidInput unless the header says uint8 and `dimensions`.
void expect_bytes(const IdxHeader& header, int dimensions, const DataFile& file);

}  // namespace cohort::train
