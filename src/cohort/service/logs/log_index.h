#pragma once

#include <cstdint>
#include <vector>

#include "cohort/service/logs/log_tail.h"

namespace cohort::service {

// Where every so many lines of a log begin, for readers that show a part of it. Lines count from 0.
struct LogIndex {
  std::uint64_t size = 0;   // how far the log was read
  std::uint64_t line = 0;   // which line is there: line ends before `size`
  std::uint64_t lines = 0;  // `line`, and one more where text stands behind the last line end
  std::uint64_t first = 0;  // which line begins at offsets[0]
  std::vector<std::uint64_t> offsets;
  bool more = false;  // it goes on; the bound of one call was met
};

// Reads from `from` on, where `line` line ends were before (size and line of an earlier index, or
// both 0), at most `most_bytes`. Lines that begin at `from` were told by that one. Holds one piece of
// the log at a time.
LogIndex index_log(const ReadLog& read, std::uint64_t from, std::uint64_t line, std::uint64_t every,
                   std::uint64_t most_bytes);

}  // namespace cohort::service
