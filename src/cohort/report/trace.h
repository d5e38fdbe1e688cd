#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cohort/report/trace_clock.h"

namespace cohort::report {

struct TraceOptions {
  int rank = 0;
  std::string process_name;           // as shown: "worker/1 on node7"; empty: "rank N"
  std::int64_t clock_offset_us = 0;   // rank 0's clock = this process's + offset (align_clocks)
  std::size_t max_events = 1u << 18;  // 15 MB; what comes after is counted, not kept
};

// A number shown with an event: {"bytes", 4096}. None when the name is null.
struct TraceArgument {
  const char* name = nullptr;
  double value = 0;
};

// Records what a process does and when, for chrome://tracing and ui.perfetto.dev.
//
// Thread-safe and lock-free while recording: an event is one atomic addition and a store of 56
// bytes, besides the looks at the clock. Names and categories are not copied: they are string
// literals, or come from intern(). Memory is bounded: past max_events events are dropped, and the
// file says how many. Times are trace_now().
class TraceRecorder {
 public:
  explicit TraceRecorder(TraceOptions options = {});
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // Valid as long as the recorder; the same pointer for the same name. Takes a lock.
  const char* intern(const std::string& name);
  // The calling thread's name in the file.
  void name_thread(std::string name);
  // Known only once peers have been reached, so later than the recorder.
  void set_clock_offset_us(std::int64_t offset) { clock_offset_us_ = offset; }

  // A track of its own for what no thread of this process shows: work that overlaps with it.
  // The same number for the same name.
  int track(const std::string& name);

  // Something that lasted, on the calling thread's track, or on the given one.
  void complete(const char* name, const char* category, std::int64_t begin, std::int64_t end,
                TraceArgument argument = {}, std::optional<int> track = {});
  // Something that happened now.
  void instant(const char* name, const char* category, TraceArgument argument = {});
  // A value as it is from now on, drawn as a graph.
  void counter(const char* name, double value);

  std::uint64_t dropped() const;
  // What was recorded up to now, as trace-rankN.json in `folder` (made if missing), in one step.
  // Returns its path. Other threads may go on recording. Throws SystemError.
  std::filesystem::path write(const std::filesystem::path& folder) const;
  // The text of that file.
  std::string to_json() const;

 private:
  struct Event {
    const char* name;
    const char* category;
    const char* argument_name;
    double value;  // the argument's, or the counter's
    std::int64_t begin;
    std::int64_t duration;
    int thread;
    std::atomic<char> phase;  // 0 until the rest is in place
  };
  void record(char phase, const char* name, const char* category, std::int64_t begin,
              std::int64_t duration, TraceArgument argument, std::optional<int> track = {});

  const TraceOptions options_;
  std::atomic<std::int64_t> clock_offset_us_;
  std::unique_ptr<Event[]> events_;
  std::atomic<std::uint64_t> next_ = 0;
  mutable std::mutex mutex_;  // guards the two below
  std::map<int, std::string> thread_names_;
  std::set<std::string> names_;
};

// Records the time from its construction to end(), or to its destruction. Does nothing without a
// recorder, so that code need not ask whether there is one. Confined to one thread.
class Span {
 public:
  Span(TraceRecorder* recorder, const char* name, const char* category, TraceArgument argument = {})
      : recorder_(recorder),
        name_(name),
        category_(category),
        argument_(argument),
        begin_(recorder ? trace_now() : 0) {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() { end(); }

  void end() {
    if (recorder_) recorder_->complete(name_, category_, begin_, trace_now(), argument_);
    recorder_ = nullptr;
  }

 private:
  TraceRecorder* recorder_;
  const char* name_;
  const char* category_;
  TraceArgument argument_;
  std::int64_t begin_;
};

}  // namespace cohort::report
