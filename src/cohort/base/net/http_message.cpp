#include "cohort/base/net/http_message.h"

#include <strings.h>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort {

const std::string* find_header(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key.size() == name.size() && ::strncasecmp(key.data(), name.data(), name.size()) == 0)
      return &value;
  return nullptr;
}

std::string header_line(std::string_view name, std::string_view value) {
  const std::string line = fmt::format("{}: {}", name, value);
  for (const unsigned char c : line)
    if ((c < ' ' && c != '\t') || c == 127)
      throw InvalidInput(
          fmt::format("the header '{}' has a control character", escape_controls(name)));
  return line + "\r\n";
}

}  // namespace cohort
