#pragma once

#include <memory>

#include "cohort/base/deadline.h"

namespace cohort::collective {

class WorkState;  // work_state.h

// One asynchronous call. Copyable; all copies mean the same call. Thread-safe. Dropping every copy
// does not cancel the call, whose memory must still stay until it is done.
class Work {
 public:
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // True when the call is over, well or badly.
  bool poll() const;
  // Returns when the call is over; throws what it threw. TimeoutError when the deadline passes
  // first: the call itself goes on until its own deadline, and may be waited for again.
  void wait(Deadline deadline = Deadline::never());

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace cohort::collective
