#include "cohort/base/log/log.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cohort/base/log/reader_output.h"

namespace cohort::log {
namespace {

// The one global of the library: the sink that every line goes through.
struct Sink {
  std::atomic<Level> level = Level::info;
  std::atomic<bool> drop_if_blocked = false;

  std::mutex mutex;  // held by the thread that writes to standard error, perhaps for long
  std::function<void()> before_line;

  std::mutex queue_mutex;  // guards what follows; taken after `mutex`, and never held for long
  std::deque<std::string> kept;
  std::uint64_t dropped = 0;
  bool has_writer = false;  // a thread waits for room
};

thread_local bool thread_never_waits = false;

void write_line(Sink& sink, Level level, std::string_view text, bool wait);

void write_last_lines();

Sink* make_sink() {
  auto* sink = new Sink;
  std::atexit(write_last_lines);
  const char* value = std::getenv("COHORT_LOG");
  if (value == nullptr || *value == '\0') return sink;
  if (const auto level = parse_level(value))
    sink->level = *level;
  else
    write_line(*sink, Level::warning,
               fmt::format("COHORT_LOG is '{}', so info is used. Set it to debug, info, warning, "
                           "error or off.",
                           value),
               true);
  return sink;
}

Sink& sink() {
  static Sink* instance = make_sink();  // never destroyed: threads may log until the very end
  return *instance;
}

bool has_kept(Sink& sink) {
  std::lock_guard lock(sink.queue_mutex);
  return !sink.kept.empty() || sink.dropped > 0;
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

bool has_room() {
  pollfd entry{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

// The next line to be written without waiting; empty when there is none.
std::string take_kept(Sink& sink) {
  std::lock_guard lock(sink.queue_mutex);
  std::string line;
  if (!sink.kept.empty()) {
    line = std::move(sink.kept.front());
    sink.kept.pop_front();
  } else if (const auto count = std::exchange(sink.dropped, 0); count > 0) {
    line = fmt::format(
        "cohort: warning: {} of the log {} dropped, since standard error was not read\n",
        count == 1 ? "1 line" : fmt::format("{} lines", count), count == 1 ? "was" : "were");
  }
  return line;
}

// Writes what is kept: while there is room, or all of it. The caller holds `mutex`.
void write_kept(Sink& sink, bool wait) {
  while (wait || has_room()) {
    const std::string line = take_kept(sink);
    if (line.empty()) return;
    if (sink.before_line) sink.before_line();
    if (!write_to_reader(STDERR_FILENO, line, sink.drop_if_blocked) && wait) return;
  }
}

// A thread that waits for room in place of one that must not, and goes when all is written.
void start_writer(Sink& sink) {
  {
    std::lock_guard lock(sink.queue_mutex);
    if (sink.has_writer) return;
    sink.has_writer = true;
  }
  const auto run = [&sink] {
    while (true) {
      {
        std::lock_guard lock(sink.mutex);
        write_kept(sink, true);
      }
      std::lock_guard lock(sink.queue_mutex);
      if (!sink.kept.empty() || sink.dropped > 0) continue;
      sink.has_writer = false;
      return;
    }
  };
  try {
    std::thread(run).detach();  // the sink outlives it
  } catch (const std::system_error&) {
    // No thread to be had: the lines go out with the next one.
    std::lock_guard lock(sink.queue_mutex);
    sink.has_writer = false;
  }
}

// At the end of the process: what is kept goes out if the reader takes it within a moment.
void write_last_lines() {
  constexpr int kTries = 10, kPauseMs = 20;
  for (int i = 0; i < kTries && has_kept(sink()); ++i) {
    if (std::unique_lock lock(sink().mutex, std::try_to_lock); lock) write_kept(sink(), false);
    if (has_kept(sink())) ::poll(nullptr, 0, kPauseMs);
  }
}

void keep(Sink& sink, std::string line) {
  if (line.size() > PIPE_BUF) line.replace(PIPE_BUF - 4, line.npos, "...\n");
  {
    std::lock_guard lock(sink.queue_mutex);
    if (sink.kept.size() >= kMaxKept) {
      ++sink.dropped;
      return;
    }
    sink.kept.push_back(std::move(line));
  }
  if (std::unique_lock lock(sink.mutex, std::try_to_lock); lock) {
    // The owner of a line kept on the terminal may have to be waited for.
    if (!sink.before_line) write_kept(sink, false);
  }
  if (has_kept(sink)) start_writer(sink);
}

// One write() a line, so that lines of several processes on one terminal do not mix.
void write_line(Sink& sink, Level level, std::string_view text, bool wait) {
  std::string line;
  {
    std::lock_guard lock(sink.queue_mutex);
    line = fmt::format("cohort: {}{}\n", label(level), text);
  }
  if (!wait) return keep(sink, std::move(line));
  std::lock_guard lock(sink.mutex);
  write_kept(sink, true);
  if (sink.before_line) sink.before_line();
  write_to_reader(STDERR_FILENO, line, sink.drop_if_blocked);
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

Level level() { return sink().level; }

void write(Level level, std::string_view text) {
  if (level < sink().level) return;
  write_line(sink(), level, text, !thread_never_waits);
}

void write_without_waiting(Level level, std::string_view text) {
  if (level < sink().level) return;
  write_line(sink(), level, text, false);
}

NeverWait::NeverWait() : before_(std::exchange(thread_never_waits, true)) {}
NeverWait::~NeverWait() { thread_never_waits = before_; }

void write_report(std::string_view text) {
  std::lock_guard lock(sink().mutex);
  write_kept(sink(), true);
  if (sink().before_line) sink().before_line();
  write_to_reader(STDERR_FILENO, text, sink().drop_if_blocked);
}

void drop_if_blocked() { sink().drop_if_blocked = true; }

void set_before_line(std::function<void()> hook) {
  std::lock_guard lock(sink().mutex);
  sink().before_line = std::move(hook);
}

}  // namespace cohort::log
