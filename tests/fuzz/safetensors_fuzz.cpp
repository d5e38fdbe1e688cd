// libFuzzer: whatever a safetensors file begins with, its header is refused with a reason, or
// describes exactly the bytes that follow.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

using namespace cohort::train;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const auto length = parse_header_length(file, file.size(), "fuzz");
    if (length > size - kLengthBytes) std::abort();
    const auto bytes = size - kLengthBytes - length;
    std::uint64_t at = 0;
    for (const auto& entry :
         parse_header(file.substr(kLengthBytes, length), bytes, "fuzz").tensors) {
      std::uint64_t expected = size_of(entry.dtype);
      for (auto extent : entry.shape) expected *= static_cast<std::uint64_t>(extent);
      if (entry.begin != at || entry.end - entry.begin != expected) std::abort();
      at = entry.end;
    }
    if (at != bytes) std::abort();
  } catch (const cohort::InvalidInput&) {
  }
  return 0;
}
