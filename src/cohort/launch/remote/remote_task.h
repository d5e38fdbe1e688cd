#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/environment.h"

// A task on another host, as it travels: over the standard input of `cohort host-task` there
// (host_task.h), which a remote shell starts (remote_shell.h). Lines:
//   1. the task, a JSON object: what runs, and the job's secret. Nothing of it is ever on a command
//      line or in an environment of this host or that one.
//   2. "" every second, for as long as the launcher lives and reaches the host.
//   3. "signal N": for the program's process group.
// Silence for kSilence, or the end of the input, means that the launcher is lost.
namespace cohort::launch {

inline constexpr std::chrono::seconds kBeat{1};
inline constexpr std::chrono::seconds kSilence{10};

struct RemoteTask {
  std::string name;                       // "worker/3", for messages
  std::vector<std::string> command;       // program and arguments; not empty
  cluster::Environment environment;       // set on top of what the host itself gives
  std::vector<std::string> removed;       // taken out of that
  int tasks_on_host = 1;                  // that train there, this one included
  std::filesystem::path folder;           // to run in
  std::chrono::milliseconds grace{5000};  // between TERM and KILL when the launcher is lost
  std::optional<Secret> secret;           // becomes COHORT_SECRET_FD
  std::string last_word_mark;             // announces its last word (remote_last_word.h)
};

// One line with its end. Throws InvalidInput for bytes that are not UTF-8.
std::string to_line(const RemoteTask& task);

// Throws InvalidInput that says what is wrong, also when another version of Cohort wrote it.
RemoteTask parse_remote_task(std::string_view line);

// The launcher's end of that input: sends the task, then the beats and signals, on a thread of its
// own, so that a launcher that waits for a slow terminal loses no task. A remote shell that has
// gone is not an error here: its exit tells.
//
// Threads: thread-compatible. The destructor closes the input, which ends the program there.
class RemoteLink {
 public:
  // `input` is the writing end of a pipe whose reading end the remote shell has.
  RemoteLink(UniqueFd input, std::string task_line, std::chrono::milliseconds beat = kBeat);
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;
  ~RemoteLink();

  void signal(int number);

 private:
  void send(std::string_view bytes);
  void write_pending();
  void schedule_beat();
  void hang_up();

  std::chrono::milliseconds beat_;
  EventLoop loop_;
  UniqueFd input_;        // the rest is the thread's
  std::string pending_;   // not written yet
  bool waiting_ = false;  // for room in the pipe
  std::thread thread_;
};

}  // namespace cohort::launch
