#include "cohort/train/data/tar_dataset.h"

#include <charconv>
#include <cstring>
#include <map>

#include "cohort/base/text.h"
#include "cohort/train/data/npy_header.h"

namespace cohort::train {

torch::Tensor npy_tensor(std::string_view bytes) {
  // u2, u4 and u8 have no tensor in LibTorch 1.13: the next wider type has all their values but
  // u8's upper half.
  static const std::map<std::string, torch::ScalarType> kTypes{
      {"|b1", torch::kBool},    {"|u1", torch::kUInt8},   {"|i1", torch::kInt8},
      {"<i2", torch::kInt16},   {"<i4", torch::kInt32},   {"<i8", torch::kInt64},
      {"<f2", torch::kFloat16}, {"<f4", torch::kFloat32}, {"<f8", torch::kFloat64}};
  const NpyHeader header = parse_npy_header(bytes, bytes.size(), ".npy");
  const auto type = kTypes.find(header.type);
  if (type == kTypes.end())
    throw InvalidInput(fmt::format("a .npy array of type {} is no tensor", header.type),
                       {.advice = "Save it as a signed type: array.astype('int64')."});
  const std::string_view data = bytes.substr(static_cast<std::size_t>(header.offset));
  if (header.type == "|b1" && data.find_first_not_of(std::string_view("\0\1", 2)) != data.npos)
    throw InvalidInput("a .npy array of booleans has a byte that is neither 0 nor 1");
  torch::Tensor tensor = torch::empty(header.shape, torch::TensorOptions().dtype(type->second));
  if (!data.empty()) std::memcpy(tensor.data_ptr(), data.data(), data.size());
  return tensor;
}

torch::Tensor class_tensor(std::string_view text) {
  const std::string_view digits = trim(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw InvalidInput(
        fmt::format("'{}' is no class: a whole number", escape_controls(digits.substr(0, 40))));
  return torch::tensor(value, torch::kInt64);
}

torch::Tensor bytes_tensor(std::string_view bytes) {
  torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace cohort::train
