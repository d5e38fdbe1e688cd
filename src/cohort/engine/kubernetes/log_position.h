#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::engine::kubernetes {

// "2026-11-16T22:51:45.123456789Z", or with an offset, as nanoseconds since 1970.
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// Where a container's log goes on that is read line by line with timestamps, over streams that
// break off. The server can begin at a whole second only, so lines come again; they are told from
// new ones by their time, and, of lines of one time, by their number. A value; thread-compatible.
class LogPosition {
 public:
  // For the query: "" for the whole log, else "2026-11-16T22:51:45Z".
  std::string since() const;

  // A new stream begins.
  void begin_stream();

  // What a line (without its end) adds to the log; nothing when it was taken before.
  std::optional<std::string_view> take(std::string_view line);

  std::string to_json() const;
  static LogPosition from_json(std::string_view text);  // the beginning for what is no position

 private:
  std::int64_t last_ = -1;  // of the newest line taken
  int same_ = 0;            // lines of that time
  int skipped_ = 0;         // of them, in this stream
  bool fresh_ = true;       // this stream is past what was taken before
};

}  // namespace cohort::engine::kubernetes
