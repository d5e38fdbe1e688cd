#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "cohort/base/process/last_word.h"
#include "cohort/cluster/task.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {

// What is known about one run of one task: for job.json and for the report of a failure. A value.
struct TaskRecord {
  cluster::TaskId id;
  std::string host;
  pid_t pid = -1;
  int attempt = 1;
  int restarts =
      0;  // how often it was started again alone in this attempt; the rest is the last run
  std::filesystem::path log;

  std::string started;  // UTC timestamps; "" when it has not happened
  std::string ended;
  std::chrono::milliseconds ran_for{0};
  std::optional<ExitStatus> exit;
  int suspended_by = 0;              // the signal that stopped it (SIGSTOP, SIGTTIN); 0: it runs
  bool stopped_by_launcher = false;  // it ended after Cohort had asked it to
  long peak_memory_kib = 0;
  std::deque<std::string> last_lines;  // newest last; filled when it ended
  std::string error_line;              // the one that says what went wrong (error_line.h)
  LastWord last_word;                  // what it said of its end; another's text, not to be trusted
  std::string memory_evidence;         // why we believe that memory ran out; "" when we do not
  // Of a root cause that ended with exit code 0: who waited for it, in which call.
  std::string missed_by;
};

}  // namespace cohort::launch
