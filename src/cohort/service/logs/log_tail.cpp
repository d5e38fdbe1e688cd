#include "cohort/service/logs/log_tail.h"

#include <algorithm>

namespace cohort::service {
namespace {

constexpr std::uint64_t kTailPiece = 64 * 1024;
constexpr std::uint64_t kMostTailBytes = std::uint64_t{16} << 20;  // it is read for one request
constexpr std::uint64_t kMostLogBytes = std::uint64_t{1} << 50;

std::uint64_t size_of_log(const ReadLog& read) {
  const auto has_byte = [&read](std::uint64_t offset) { return !read(offset, 1).empty(); };
  std::uint64_t least = 0;  // there are at least so many bytes
  std::uint64_t most = kTailPiece;
  while (most < kMostLogBytes && has_byte(most - 1)) {
    least = most;
    most *= 2;
  }
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    if (has_byte(middle))
      least = middle + 1;
    else
      most = middle;
  }
  return least;
}

// Bytes at the end that begin a character of UTF-8 whose rest has not come.
std::size_t cut_character(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::uint64_t offset_of_tail(const ReadLog& read, std::uint64_t lines) {
  const std::uint64_t size = size_of_log(read);
  if (lines == 0) return size;
  std::uint64_t left = lines;  // line ends to pass
  const std::uint64_t first = size > kMostTailBytes ? size - kMostTailBytes : 0;
  for (std::uint64_t end = size; end > first;) {
    const std::uint64_t begin = end > kTailPiece ? end - kTailPiece : 0;
    const std::string bytes = read(begin, static_cast<std::size_t>(end - begin));
    for (std::size_t i = bytes.size(); i > 0; --i) {
      if (bytes[i - 1] != '\n' || begin + i == size) continue;  // the last one ends a line only
      if (--left == 0) return begin + i;
    }
    end = begin;
  }
  return first;
}

std::size_t sendable(std::string_view bytes, std::size_t most, bool ended) {
  if (const auto last = bytes.rfind('\n'); last != std::string_view::npos) return last + 1;
  if (ended) return bytes.size();
  return bytes.size() < most ? 0 : bytes.size() - cut_character(bytes);
}

}  // namespace cohort::service
