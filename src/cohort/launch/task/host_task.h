#pragma once

#include <chrono>

#include "cohort/launch/remote/remote_task.h"

namespace cohort::launch {

struct HostTaskOptions {
  int input = 0;   // where the launcher's lines come from
  int output = 1;  // the program's standard output and standard error
  std::chrono::milliseconds silence = kSilence;
};

// `cohort host-task`: runs one task of a launcher on another host (remote_task.h has the lines
// between them). The program leads a process group of its own; it gets the launcher's signals, and
// those that this process itself gets. When the launcher is lost, by the end of its input or by its
// silence, the program gets TERM, and KILL when its grace period is over: a cut network leaves
// no task training. What the program leaves behind is killed, whatever happens to this process.
//
// Returns the program's exit code, or 128 + the signal that killed it: remote shells carry a code,
// and lose a death by signal. Call it in the main thread, once in a process. Throws InvalidInput
// when no task comes, or its program or folder is not on this host; SystemError.
int run_host_task(const HostTaskOptions& options);

}  // namespace cohort::launch
