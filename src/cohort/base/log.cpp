#include "cohort/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "cohort/base/reader_output.h"

namespace cohort::log {
namespace {

// The one global of the library: the sink that every line goes through.
struct Sink {
  std::mutex mutex;
  std::string name = "cohort";
  std::atomic<Level> level = Level::info;
  std::atomic<bool> hurry = false;
  std::function<void()> before_line;
};

void write_line(Sink& sink, Level level, std::string_view text);

Sink* make_sink() {
  auto* sink = new Sink;
  const char* value = std::getenv("COHORT_LOG");
  if (value == nullptr || *value == '\0') return sink;
  if (const auto level = parse_level(value))
    sink->level = *level;
  else
    write_line(*sink, Level::warning,
               fmt::format("COHORT_LOG is '{}', so info is used. Set it to debug, info, warning, "
                           "error or off.",
                           value));
  return sink;
}

Sink& sink() {
  static Sink* instance = make_sink();  // never destroyed: threads may log until the very end
  return *instance;
}

const char* label(Level level) {
  switch (level) {
    case Level::debug:
      return "debug: ";
    case Level::warning:
      return "warning: ";
    case Level::error:
      return "error: ";
    default:
      return "";
  }
}

// One write() a line, so that lines of several processes on one terminal do not mix.
void write_line(Sink& sink, Level level, std::string_view text) {
  std::lock_guard lock(sink.mutex);
  // One write() a line, so that lines of several processes on one terminal do not mix.
  std::string line = fmt::format("{}: {}{}\n", sink.name, label(level), text);
  if (sink.before_line) sink.before_line();
  write_to_reader(STDERR_FILENO, line, sink.hurry);
}

}  // namespace

std::optional<Level> parse_level(std::string_view text) {
  constexpr std::pair<std::string_view, Level> kLevels[] = {{"debug", Level::debug},
                                                            {"info", Level::info},
                                                            {"warning", Level::warning},
                                                            {"error", Level::error},
                                                            {"off", Level::off}};
  for (const auto& [name, level] : kLevels)
    if (text == name) return level;
  return std::nullopt;
}

void set_name(std::string name) {
  std::lock_guard lock(sink().mutex);
  sink().name = std::move(name);
}

void set_level(Level level) { sink().level = level; }
Level level() { return sink().level; }

void write(Level level, std::string_view text) {
  if (level < sink().level) return;
  write_line(sink(), level, text);
}

void write_report(std::string_view text) {
  std::lock_guard lock(sink().mutex);
  if (sink().before_line) sink().before_line();
  write_to_reader(STDERR_FILENO, text, sink().hurry);
}

void hurry() { sink().hurry = true; }

void set_before_line(std::function<void()> hook) {
  std::lock_guard lock(sink().mutex);
  sink().before_line = std::move(hook);
}

}  // namespace cohort::log
