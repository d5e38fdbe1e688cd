#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace cohort {

// Bytes as a test writes them down: a format that others read again must not change unnoticed.
inline std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace cohort
