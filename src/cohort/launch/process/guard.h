#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/launch/process/leftovers.h"

namespace cohort::launch {

// The process that outlives a killed launcher: when the launcher disappears, by SIGKILL too, it
// kills every process group registered with it and every other process of the job (those with
// `variable`=`job` in their environment), then ends. It removes the launcher's control socket, too.
// It is a child of the launcher that waits on a pipe; it uses no CPU time meanwhile.
//
// It forks and does not exec, and takes memory in the child: construct it before the first thread
// starts where you can. (glibc's fork leaves its memory usable; a second guard relies on that.)
// Confined to one thread.
class Guard {
 public:
  explicit Guard(std::string job, std::filesystem::path control = {},
                 const char* variable = kJobVariable);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();  // dismisses it: nothing is killed

  void watch(pid_t group);
  void forget(
      pid_t group);  // call before reaping the group's leader: its number is then still taken

  pid_t pid() const { return pid_; }

  // Puts another in the place of a guard that was killed, and warns. When none can be started it
  // warns once, and the job goes on without.
  void replace_if_dead();

 private:
  bool is_dead();
  void start();
  void tell(int verb, pid_t group);

  const std::string job_;
  const std::filesystem::path control_;
  const char* const variable_;
  std::set<pid_t> groups_;  // that are watched

  UniqueFd pipe_;
  pid_t pid_ = -1;
  bool is_lost_ = false;  // there is none, and none could be started
};

}  // namespace cohort::launch
