#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/service/logs/log_tail.h"

namespace re2 {
class RE2;
}

namespace cohort::service {

struct LogMatch {
  std::uint64_t offset = 0;  // where its line begins
  std::uint64_t line = 0;    // from 0 on
  std::string text;          // the line, or 500 bytes of it around the match; valid UTF-8
  std::size_t start = 0;     // the match within `text`, in characters (code points)
  std::size_t length = 0;
};

struct LogMatches {
  std::vector<LogMatch> matches;  // the first of each line
  // Where to go on, and which line begins there; nothing: the end of what is written was reached.
  std::optional<std::uint64_t> next;
  std::uint64_t next_line = 0;
  std::uint64_t size = 0;  // how far the log was read
};

// Looks for a text or a regular expression (RE2) in the lines of a log. A line of more than 1 MiB is
// searched in pieces of that size. Memory and time do not depend on the size of the log: a piece is
// held at a time, and a call ends after so many matches, bytes or milliseconds.
//
// Threads: const methods from any. Failure: the constructor throws ApiError (400) for what is no
// regular expression, or too long.
class LogSearch {
 public:
  struct Options {
    bool is_regex = false;
    bool matches_case = false;
  };
  struct Bounds {
    std::size_t matches = 200;
    std::uint64_t bytes = std::uint64_t{64} << 20;
    std::chrono::milliseconds time{1000};
  };

  LogSearch(const std::string& text, Options options);
  ~LogSearch();
  LogSearch(LogSearch&&) noexcept;

  // From `from` on, where line `line` begins.
  LogMatches run(const ReadLog& read, std::uint64_t from, std::uint64_t line,
                 const Bounds& bounds) const;

 private:
  std::unique_ptr<re2::RE2> expression_;
};

// The bytes with each that is not UTF-8 as U+FFFD. Pure.
std::string valid_utf8(std::string_view bytes);

}  // namespace cohort::service
