#pragma once

#include <fmt/core.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Cohort's own messages, on standard error: "cohort: <level>: text". Thread-safe.
// The level comes from COHORT_LOG (debug, info, warning, error, off); the default is info. Another
// value is warned of, once.
namespace cohort::log {

enum class Level { debug, info, warning, error, off };

// The level of that name; nothing when there is none.
std::optional<Level> parse_level(std::string_view text);

// Who speaks: replaces "cohort" in front of each line, e.g. by "worker/0".
void set_name(std::string name);
void set_level(Level level);
Level level();
void write(Level level, std::string_view text);
// Text as it is, whatever the level: for a report of several lines.
void write_report(std::string_view text);
// From here on a reader of standard error that does not read is not waited for (reader_output.h).
void hurry();
// Called before each line, under the sink's lock: whoever keeps a line alive on the terminal takes
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
