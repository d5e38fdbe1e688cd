#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "cohort/capi/execution/request.h"

namespace cohort::capi {

// A Chrome trace of requests as they end, one track for each name: NEGOTIATE_<KIND> until all ranks
// had submitted it, then <KIND>. Each event is in the file before the next: a process that is killed
// leaves an array without its end, which Perfetto and chrome://tracing accept.
// Thread-safe. Does nothing, at the price of one look at a flag, while it is not started.
class Timeline {
 public:
  Timeline() = default;
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Replaces the file at `path`. Throws InvalidInput when it is started already, SystemError when the
  // file cannot be written.
  void start(const std::string& path, int rank, bool mark_rounds);
  void stop();

  void record(const Request& request, Request::Clock::time_point ready);
  void mark_round();

 private:
  void write(const std::string& event);
  std::int64_t microseconds(Request::Clock::time_point time) const;
  int track_of(const std::string& name);

  std::atomic<bool> started_ = false;
  std::mutex mutex_;  // guards the rest
  std::FILE* file_ = nullptr;
  int rank_ = 0;
  bool mark_rounds_ = false;
  Request::Clock::time_point zero_{};
  std::map<std::string, int> tracks_;
};

}  // namespace cohort::capi
