#pragma once

#include <csignal>
#include <functional>

#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// Takes over the signals INT, TERM, HUP, USR1, USR2 and CHLD for as long as it lives: they come
// through the loop. A HUP that is ignored (nohup) stays so. PIPE and XFSZ are ignored from here on.
//
// Construct it before threads start, so that none of them gets a signal. Confined to the loop's
// thread; `loop` must outlive it. The constructor throws SystemError.
class LauncherSignals {
 public:
  // `on_signal` for each, `afterwards` once for those that came together.
  LauncherSignals(EventLoop& loop, std::function<void(int signal)> on_signal,
                  std::function<void()> afterwards);
  LauncherSignals(const LauncherSignals&) = delete;
  LauncherSignals& operator=(const LauncherSignals&) = delete;
  ~LauncherSignals();

  // Handles those that have come, now: for work that takes long and must not wait for the loop.
  void take();

 private:
  EventLoop& loop_;
  std::function<void(int)> on_signal_;
  std::function<void()> afterwards_;
  sigset_t old_mask_;
  UniqueFd signals_;
};

}  // namespace cohort::launch
