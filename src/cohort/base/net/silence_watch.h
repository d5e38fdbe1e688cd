#pragma once

#include <algorithm>
#include <chrono>

#include "cohort/base/deadline.h"

namespace cohort {

// How long one wait for a peer goes on without a word from it. Time in which this process did not
// run (it was stopped itself, perhaps with the whole job) does not count: what its peers sent
// meanwhile is not read yet, and they may begin to beat again only now. A value that is told the
// time; thread-compatible.
class SilenceWatch {
 public:
  using TimePoint = Deadline::Clock::time_point;

  // `limit` 0: silence means nothing.
  SilenceWatch(std::chrono::milliseconds limit, TimePoint now)
      : limit_(limit), begin_(now), looked_(now) {}

  // Whether the peer has been silent for too long. `heard`: when bytes of it came last;
  // TimePoint::max(): it is not its turn to speak.
  bool is_over(TimePoint now, TimePoint heard) {
    const bool was_away = now - looked_ > limit_ / 2;
    looked_ = now;
    if (was_away || heard == TimePoint::max()) begin_ = now;
    return limit_.count() > 0 && heard != TimePoint::max() &&
           now >= std::max(begin_, heard) + limit_;
  }
  // How long the wait has gone on without a word, as of the last is_over().
  Deadline::Clock::duration lasted(TimePoint heard) const {
    return looked_ - std::max(begin_, heard);
  }
  // When to ask again, at the latest.
  TimePoint next_look() const {
    return limit_.count() > 0 ? looked_ + limit_ / 4 : TimePoint::max();
  }

 private:
  std::chrono::milliseconds limit_;
  TimePoint begin_;
  TimePoint looked_;
};

}  // namespace cohort
