#include "cohort/service/logs/weights_line.h"

#include <algorithm>

#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr std::uint64_t kReportLines = 200;
constexpr std::size_t kReportBytes = 64 * 1024;
constexpr std::string_view kWord = "weights ";
constexpr std::size_t kLeastDigits = 8;
constexpr std::size_t kMostDigits = 128;

bool is_fingerprint(std::string_view text) {
  return text.size() >= kLeastDigits && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string weights_in_log(const ReadLog& read) {
  const std::string end = read(offset_of_tail(read, kReportLines), kReportBytes);
  std::string found;
  for (const std::string& line : split(end, '\n'))
    if (const std::string_view text = trim(line);
        text.starts_with(kWord) && is_fingerprint(text.substr(kWord.size())))
      found = text.substr(kWord.size());
  return found;
}

}  // namespace cohort::service
