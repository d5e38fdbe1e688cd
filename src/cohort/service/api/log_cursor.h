#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::service {

// How far a follower has come in the logs of a job: the attempt, and in it each task's offset. All
// attempts before it are done. A value; as text it is the id of a log event.
struct LogCursor {
  int attempt = 0;                               // 0: before the first
  std::map<std::string, std::uint64_t> offsets;  // by task; not there: 0

  bool operator==(const LogCursor&) const = default;
};

std::string to_text(const LogCursor& cursor);  // "2;worker:0=4711;worker:1=12"
std::optional<LogCursor> log_cursor_of(std::string_view text);

}  // namespace cohort::service
