#pragma once

#include <chrono>
#include <optional>

#include "cohort/base/net/event_loop.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/ending/remote_last_word.h"
#include "cohort/launch/ending/task_record.h"
#include "cohort/launch/output/error_line.h"
#include "cohort/launch/output/line_splitter.h"
#include "cohort/launch/output/screen.h"
#include "cohort/launch/output/task_log.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/process/guard.h"
#include "cohort/launch/process/process.h"
#include "cohort/launch/remote/remote_task.h"

namespace cohort::launch {

struct StartOptions {
  std::filesystem::path program;
  int secret = -1;  // the job's, to be inherited
  std::optional<rlimit> file_limit;
  std::chrono::milliseconds grace{5000};  // for a task on another host that loses the launcher
  DescriptorWindow* window = nullptr;     // process.h
};

// One task while it runs: its process, the pipe that its output comes through, its log file. The
// process of a task on another host is the remote shell here, which ends as the program there does.
// Confined to the launcher's main thread. The destructor kills and reaps a process that is still
// there.
class TaskProcess {
 public:
  // `loop`, `screen` and `guard` must outlive this object.
  struct Identity {
    cluster::TaskId id;
    std::string host;
    int attempt = 1;
    std::filesystem::path log;
    // How its process reports and keeps what outlives it: here, in memory, or not at all.
    bool keeps_state = false;
  };
  TaskProcess(Identity identity, EventLoop& loop, Screen& screen, Guard& guard);
  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;
  ~TaskProcess();

  // Runs it as planned, perhaps on another host than before; a task that has ended runs anew, with
  // what it kept, and its log goes on behind a line that says so. From here on the loop brings the
  // output to the screen and the log. Throws what spawn() throws, and then has changed nothing.
  void start(const PlannedTask& plan, const StartOptions& options);

  // What it last said of its own death (restart_state.h).
  RestartStateOwner::Flag restart_flag() const {
    return keep_ ? keep_->read_flag() : RestartStateOwner::Flag::no_restart;
  }

  const cluster::TaskId& id() const { return record_.id; }
  const TaskRecord& record() const { return record_; }
  TaskRecord& record() { return record_; }
  bool alive() const { return record_.pid > 0 && !record_.exit; }

  enum class Change { none, suspended, resumed, exited };
  // What happened to the process since the last call. `exited` comes once, after everything the
  // process and its children left behind has been killed and the output has been read.
  Change check();

  // How the process has ended, when it has and check() has not said so yet. Costs a system call.
  std::optional<ExitStatus> peek_exit() const;
  // Of a task on another host that has ended: the remote shell here did without the program's own
  // word, so that the program may go on until it misses us.
  bool may_still_run() const;

  void signal(int number);  // to the whole process group, on whatever host
  void ask_to_stop();       // TERM; and CONT, since a suspended task could not answer

 private:
  void spawn_as(const PlannedTask& plan, const StartOptions& options);
  SpawnOptions as_planned(const PlannedTask& plan, const StartOptions& options);
  SpawnOptions on_its_host(const PlannedTask& plan, const StartOptions& options, UniqueFd& input);
  bool is_remote() const { return remote_word_.has_value(); }
  std::optional<ExitStatus> peek_process() const;
  void finish(const ExitStatus& status);
  void read_output();  // what the pipe holds now, kBytesPerTurn at most
  void close_output();
  void kill_and_reap();  // when it is still there; nothing is recorded
  void write_log(std::string_view bytes);
  void take(std::string_view bytes);
  void take_output(std::string_view bytes);

  EventLoop& loop_;
  Screen& screen_;
  Guard& guard_;
  TaskRecord record_;
  std::optional<RestartStateOwner> keep_;
  TaskLog log_;
  bool log_ends_with_a_line_ = true;
  LastLines last_lines_;
  ErrorLine error_line_;
  // Where its last word comes from: memory here, or another host's output.
  std::optional<LastWordOwner> last_word_;
  std::optional<LastWordFilter> remote_word_;
  LineSplitter splitter_;
  UniqueFd output_;
  std::optional<RemoteLink> link_;  // of a task on another host
  bool out_of_sight_ = false;       // may_still_run() of a process that check() has seen end
  std::chrono::steady_clock::time_point started_;
};

}  // namespace cohort::launch
