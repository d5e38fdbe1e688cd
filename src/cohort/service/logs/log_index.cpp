#include "cohort/service/logs/log_index.h"

#include <algorithm>
#include <cstring>

namespace cohort::service {
namespace {

constexpr std::size_t kIndexPiece = std::size_t{1} << 20;

}  // namespace

LogIndex index_log(const ReadLog& read, std::uint64_t from, std::uint64_t line, std::uint64_t every,
                   std::uint64_t most_bytes) {
  LogIndex index{.size = from, .line = line};
  if (from == 0 && line == 0)
    index.offsets.push_back(0);
  else
    index.first = (line / every + 1) * every;
  bool ends_a_line = from == 0 || read(from - 1, 1) == "\n";
  while (true) {
    const std::uint64_t left = from + most_bytes - index.size;
    if (left == 0) {
      index.more = true;
      break;
    }
    const std::string piece =
        read(index.size, static_cast<std::size_t>(std::min<std::uint64_t>(kIndexPiece, left)));
    if (piece.empty()) break;
    const char* const end = piece.data() + piece.size();
    const char* at = piece.data();
    while ((at = static_cast<const char*>(
                std::memchr(at, '\n', static_cast<std::size_t>(end - at)))) != nullptr) {
      ++at;
      if (++index.line % every == 0)
        index.offsets.push_back(index.size + static_cast<std::uint64_t>(at - piece.data()));
    }
    index.size += piece.size();
    ends_a_line = piece.back() == '\n';
  }
  index.lines = index.line + (ends_a_line ? 0 : 1);
  return index;
}

}  // namespace cohort::service
