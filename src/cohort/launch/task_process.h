#pragma once

#include <chrono>
#include <optional>

#include "cohort/base/event_loop.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/guard.h"
#include "cohort/launch/line_splitter.h"
#include "cohort/launch/plan.h"
#include "cohort/launch/screen.h"
#include "cohort/launch/task_log.h"
#include "cohort/launch/task_record.h"

namespace cohort::launch {

// One task while it runs: its process, the pipe that its output comes through, its log file.
// Confined to the launcher's main thread. The destructor kills and reaps a process that is still
// there.
class TaskProcess {
 public:
  // `loop`, `screen` and `guard` must outlive this object.
  TaskProcess(PlannedTask plan, int attempt, EventLoop& loop, Screen& screen, Guard& guard);
  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;
  ~TaskProcess();

  // From here on the loop brings the output to the screen and the log. Throws what spawn() throws.
  void start(const std::filesystem::path& program, int secret,
             const std::optional<rlimit>& file_limit);

  const cluster::TaskId& id() const { return record_.id; }
  const TaskRecord& record() const { return record_; }
  TaskRecord& record() { return record_; }
  bool alive() const { return record_.pid > 0 && !record_.exit; }

  enum class Change { none, suspended, resumed, exited };
  // What happened to the process since the last call. `exited` comes once, after everything the
  // process and its children left behind has been killed and the output has been read.
  Change check();

  void signal(int number);  // to the whole process group

 private:
  void finish(const ExitStatus& status);
  void read_output();  // what the pipe holds now, kBytesPerTurn at most
  void close_output();
  void take(std::string_view bytes);

  PlannedTask plan_;
  EventLoop& loop_;
  Screen& screen_;
  Guard& guard_;
  TaskRecord record_;
  TaskLog log_;
  LastLines last_lines_;
  LineSplitter splitter_;
  UniqueFd output_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace cohort::launch
