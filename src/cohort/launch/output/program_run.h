#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {

// One run of a small program whose answer is wanted, without ever blocking the loop: its output is
// read as it comes, and a program that takes too long or prints too much is killed with its whole
// process group.
//
// Confined to the loop's thread, which must be the one that lives longest (process.h). It reaps its
// process itself: code that reaps others' children spares pid(). The destructor kills and reaps.
class ProgramRun {
 public:
  struct Options {
    std::filesystem::path program;  // resolved
    std::vector<std::string> arguments = {};
    cluster::Environment environment;  // the whole of it
    std::chrono::milliseconds limit{10'000};
    std::size_t most_bytes = 1 << 20;  // of standard output
  };
  struct Result {
    std::string output;   // all of standard output
    std::string failure;  // "" when it exited with 0; else "exit code 3: <last words>"
  };

  // Starts it; `done` is called once, from the loop, and may destroy this object. Throws what
  // spawn() throws.
  ProgramRun(Options options, EventLoop& loop, std::function<void(Result)> done);
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;
  ~ProgramRun();

  pid_t pid() const { return pid_; }

 private:
  struct Stream {
    UniqueFd fd;
    std::string text;
  };
  void read(Stream& stream);
  void close(Stream& stream);
  void on_exit();
  void kill_and_reap();
  void finish(std::string failure);
  std::string last_words() const;

  Options options_;
  EventLoop& loop_;
  std::function<void(Result)> done_;
  Stream output_, error_;
  UniqueFd process_;  // pidfd: readable when the program has ended
  pid_t pid_ = -1;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace cohort::launch
