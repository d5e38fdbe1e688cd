#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "cohort/train/callbacks/fit_state.h"

namespace cohort::train {

// How long a fit() takes, and how much of that goes into waiting. Thread-compatible.
class FitClock {
 public:
  explicit FitClock(std::chrono::nanoseconds waited) : waited_before_(waited) {}

  // `for_data`: as in show().
  void begin_epoch(std::chrono::nanoseconds for_data) {
    epoch_begun_ = Clock::now();
    epoch_samples_ = 0;
    epoch_for_data_ = for_data;
  }
  void add_step(std::int64_t samples) { epoch_samples_ += samples; }
  // `waited`: for other replicas, counted from where the constructor's was. `for_data`: for batches,
  // since fit() began.
  void show(FitState& state, std::chrono::nanoseconds waited,
            std::chrono::nanoseconds for_data) const {
    show_elapsed(state);
    const double in_epoch = seconds(Clock::now() - epoch_begun_);
    state.samples_per_second = static_cast<double>(epoch_samples_) / in_epoch;
    state.data_share = std::chrono::duration<double>(for_data - epoch_for_data_).count() / in_epoch;
    state.waited_for_data = for_data;
    state.communication_share =
        std::chrono::duration<double>(waited - waited_before_).count() / seconds(state.elapsed);
  }
  void show_elapsed(FitState& state) const { state.elapsed = Clock::now() - begun_; }

  static double seconds(std::chrono::steady_clock::duration time) {
    return std::max(std::chrono::duration<double>(time).count(), 1e-9);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begun_ = Clock::now();
  Clock::time_point epoch_begun_ = begun_;
  std::int64_t epoch_samples_ = 0;
  std::chrono::nanoseconds epoch_for_data_{0};
  std::chrono::nanoseconds waited_before_;
};

}  // namespace cohort::train
