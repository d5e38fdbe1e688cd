#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/base/data/crc32c.h"

// The records of TensorBoard's event files, for their writer and their reader. A record: length
// (64 bits), its checksum, data, its checksum.
namespace cohort::report {

// Fields of tensorboard.Event, Summary.Value, SummaryMetadata and TensorProto.
inline constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3, kEventSummary = 5;
inline constexpr int kSummaryValue = 1;
inline constexpr int kValueTag = 1, kValueSimple = 2, kValueHistogram = 5, kValueTensor = 8,
                     kValueMetadata = 9;
inline constexpr int kMetadataPlugin = 1, kMetadataClass = 4;
inline constexpr int kPluginName = 1, kPluginContent = 2;
inline constexpr int kTensorType = 1, kTensorShape = 2, kTensorContent = 4, kTensorFloat = 5,
                     kTensorDouble = 6, kTensorInt32 = 7, kTensorString = 8, kTensorInt64 = 10;
inline constexpr int kShapeDimension = 2;

// tensorflow.DataType
inline constexpr std::uint64_t kTypeFloat = 1, kTypeDouble = 2, kTypeInt32 = 3, kTypeString = 7,
                               kTypeInt64 = 9;
inline constexpr std::uint64_t kClassTensor = 2;  // tensorboard.DataClass

// Checksums of data that holds checksums are weak; TensorFlow's records therefore mask them.
inline std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace cohort::report
