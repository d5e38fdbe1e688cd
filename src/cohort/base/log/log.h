#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Cohort's own messages, on standard error: "cohort: <level>: text". Thread-safe.
// The level comes from COHORT_LOG (debug, info, warning, error, off); the default is info. Another
// value is warned of, once.
//
// A line waits for a reader of standard error that is slow (reader_output.h), unless its thread has
// others to serve: while a NeverWait lives on it, and with write_without_waiting(), a line that
// cannot go out at once is kept, up to kMaxKept of them, and written when there is room. What is
// more is dropped, counted, and reported once the reader reads again.
namespace cohort::log {

enum class Level { debug, info, warning, error, off };

// The level of that name; nothing when there is none.
std::optional<Level> parse_level(std::string_view text);

Level level();
void write(Level level, std::string_view text);
void write_without_waiting(Level level, std::string_view text);
// While it lives, no line of this thread waits: for threads that serve the network.
// EventLoop::run() has one.
class NeverWait {
 public:
  NeverWait();
  ~NeverWait();
  NeverWait(const NeverWait&) = delete;
  NeverWait& operator=(const NeverWait&) = delete;

 private:
  bool before_;
};
constexpr std::size_t kMaxKept = 1000;  // lines, of PIPE_BUF bytes at most
// Text as it is, whatever the level: for a report of several lines.
void write_report(std::string_view text);
// From here on a reader of standard error that does not read is not waited for (reader_output.h).
void drop_if_blocked();
// Called before each line, under the sink's lock: the owner of a line kept on the terminal takes
// it away first. One at a time; {} removes it. It must not log.
void set_before_line(std::function<void()> hook);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::debug)
    write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::info) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cohort::log
