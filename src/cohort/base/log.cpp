#include "cohort/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "cohort/base/reader_output.h"

namespace cohort::log {
namespace {

Level level_from_environment() {
  const char* value = std::getenv("COHORT_LOG");
  std::string_view text = value ? value : "";
  if (text == "debug") return Level::debug;
  if (text == "warning") return Level::warning;
  if (text == "error") return Level::error;
  if (text == "off") return Level::off;
  return Level::info;
}

// The one global of the library: the sink that every line goes through.
struct Sink {
  std::mutex mutex;
  std::string name = "cohort";
  std::atomic<Level> level = level_from_environment();
  std::atomic<bool> hurry = false;
  std::function<void()> before_line;
};

Sink& sink() {
  static Sink* instance = new Sink;  // never destroyed: threads may log until the very end
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

}  // namespace

void set_name(std::string name) {
  std::lock_guard lock(sink().mutex);
  sink().name = std::move(name);
}

void set_level(Level level) { sink().level = level; }
Level level() { return sink().level; }

void write(Level level, std::string_view text) {
  if (level < sink().level) return;
  std::lock_guard lock(sink().mutex);
  // One write() a line, so that lines of several processes on one terminal do not mix.
  std::string line = fmt::format("{}: {}{}\n", sink().name, label(level), text);
  if (sink().before_line) sink().before_line();
  write_to_reader(STDERR_FILENO, line, sink().hurry);
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
