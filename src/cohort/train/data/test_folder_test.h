#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/train/data/data_file.h"

namespace cohort::train {

using Bytes = std::vector<std::uint8_t>;

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(::deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// An IDX file of uint8.
inline Bytes idx_bytes(const std::vector<std::uint32_t>& dims, const Bytes& elements,
                       std::uint8_t type = 0x08) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
  return bytes + elements;
}

// A folder of one test, removed after it.
class DataTest : public ::testing::Test {
 protected:
  DataFile write(const std::string& name, const Bytes& bytes) const {
    write_file_atomically(folder_ / name,
                          {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return {folder_ / name, "Fetch it again"};
  }

  ScratchFolder scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
};

}  // namespace cohort::train
