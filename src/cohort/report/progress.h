#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "cohort/report/live_line.h"
#include "cohort/report/progress_format.h"

namespace cohort::report {

enum class ProgressMode {
  live,     // one line of a terminal, written over
  relayed,  // the same through `cohort run`, which keeps the line on its terminal
  plain,    // a line now and then: a file, a pipe
  silent,   // nothing: ranks other than 0
};

// The variable by which `cohort run` on a terminal tells its tasks that it takes a line that is
// written over; its value is the number of columns that there are for it.
inline constexpr const char* kProgressVariable = "COHORT_PROGRESS";

struct ProgressOptions {
  using Clock = std::chrono::steady_clock;

  int fd = 1;
  ProgressMode mode = ProgressMode::plain;
  int columns = 80;                                      // of a relayed line
  std::filesystem::path record;                          // progress_file.h; empty: none
  std::function<Clock::time_point()> now = &Clock::now;  // tests bring their own

  // live for a terminal, relayed under `cohort run` on a terminal, else plain. The record lies in
  // the job's output folder (COHORT_OUTPUT), where there is one.
  static ProgressOptions detect(int fd = 1);
};

// Tells a person how far a run is: a line that lives (at most 10 times a second, 2 when relayed),
// or plain lines: every 10 s, and every tenth of an epoch that takes at least 1 s.
//
// Confined to one thread, but lines of the log (log.h) may come from any: they go above the line.
// What is shown is also written to the record, at most once a second; where that fails, it is left
// out. What a program itself prints meanwhile belongs into print(). A reader that is gone makes it fall
// silent. close(), or the destructor, also while an exception passes, takes the living line away.
class Progress {
 public:
  using Clock = ProgressOptions::Clock;

  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { close(); }

  // Whether show() is due at this place of the run. Costs a look at the clock: ask before you make
  // a device tell its loss.
  bool due(std::int64_t epoch, std::int64_t step, std::int64_t steps);
  void show(const ProgressState& state);
  // Both: shows the state if it is due.
  void update(const ProgressState& state) {
    if (due(state.epoch, state.step, state.steps)) show(state);
  }

  // A line that stays, without its line end; in every mode but silent.
  void print(std::string_view line);
  void close();

 private:
  void record(const ProgressState& state);
  bool tenth_passed(std::int64_t epoch, std::int64_t step, std::int64_t steps) const;

  ProgressOptions options_;
  std::unique_ptr<LiveLine> live_;  // in live mode
  bool shown_ = false;
  Clock::time_point last_shown_, last_recorded_;
  std::int64_t last_epoch_ = 0, last_tenth_ = 0;
};

}  // namespace cohort::report
